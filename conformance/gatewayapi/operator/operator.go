// Package operator does what people do who run pgmesh on machines for a cluster: it starts a machine
// with a gateway agent for each Gateway, runs an agent beside the applications that are members of
// the mesh, and says of the certificates in the cluster that gateways may have them.
package operator

import (
	"net/netip"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/pgmesh/pgmesh/conformance/gatewayapi/follow"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

// Operator runs machines.
type Operator struct {
	// Wire is the switch that machines are on.
	Wire *netns.Switch
	// Class is that of the Gateways that it has machines for.
	Class string
	// Agent is the program mesh-agent, Envoy the one that it runs, and Discovery what it asks.
	Agent, Envoy, Discovery string
	// Spare are addresses that a machine is given if its Gateway asks for them.
	Spare []netip.Prefix
	// Folder has the logs of the machines, and States what they keep. Agents have sockets there, whose
	// paths have to be short.
	Folder, States string

	t        testing.TB
	client   client.Client
	mu       sync.Mutex
	gateways map[types.NamespacedName]*gateway
	sidecars []*agent
}

// Start has the operator do its work for as long as the cluster is followed. End ends the machines.
func (o *Operator) Start(t testing.TB, c *follow.Cluster) {
	t.Helper()
	o.t, o.client, o.gateways = t, c, map[types.NamespacedName]*gateway{}
	gateways, secrets := c.Do("run a machine for the Gateway", o.gateway), c.Do("lend gateways the Secret", o.secret)
	c.Watch(&gatewayv1.GatewayList{}, func(g client.Object) { gateways.Add(client.ObjectKeyFromObject(g)) })
	c.Watch(&corev1.SecretList{}, func(s client.Object) { secrets.Add(client.ObjectKeyFromObject(s)) })
}

// End ends all agents.
func (o *Operator) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, g := range o.gateways {
		g.agent.kill()
	}
	for _, s := range o.sidecars {
		s.kill()
	}
	o.gateways, o.sidecars = map[types.NamespacedName]*gateway{}, nil
}
