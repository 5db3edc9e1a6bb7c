package operator

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

// gateway is a machine that serves a Gateway.
type gateway struct {
	of      types.UID
	machine *netns.Namespace
	agent   *agent
}

// gateway has a machine for a Gateway of the class for as long as the Gateway is there.
func (o *Operator) gateway(ctx context.Context, of types.NamespacedName) error {
	var g gatewayv1.Gateway
	err := o.client.Get(ctx, of, &g)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	there := o.gateways[of]
	if there != nil && there.of != g.UID {
		delete(o.gateways, of)
		there.agent.kill()
		there = nil
	}
	if err != nil || there != nil || string(g.Spec.GatewayClassName) != o.Class {
		return nil
	}
	machine := o.Wire.Machine(o.t)
	o.address(machine, &g)
	run, err := o.start(machine, filepath.Join(o.Folder, g.Namespace, "gateway-"+g.Name+"-"+string(g.UID)), nil,
		"--role", "gateway", "--gateway", g.Name, "--namespace", g.Namespace, "--id", g.Name+"."+g.Namespace, "--interception-mode", "NONE")
	if err != nil {
		return err
	}
	o.gateways[of] = &gateway{g.UID, machine, run}
	return nil
}

// address gives a machine the address that its Gateway asks for, if that is to be had.
func (o *Operator) address(machine *netns.Namespace, g *gatewayv1.Gateway) {
	for _, a := range g.Spec.Addresses {
		at := slices.IndexFunc(o.Spare, func(spare netip.Prefix) bool { return spare.Addr().String() == a.Value })
		if at >= 0 {
			machine.Run("ip", "address", "add", o.Spare[at].String(), "dev", "eth0")
			machine.IPv4 = o.Spare[at].Addr()
		}
	}
}
