package clitest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// Report reports three proxies at the revision 8: cart.shop, which is synced, pay.shop, which
// refuses two resources of it, and gate.bank, which has gone.
func (m *Mesh) Report(s *store.Store) {
	m.t.Helper()
	tell := m.Reporting(s)
	pay := ProxyOf(2, "shop", "pay", "sidecar")
	pay.State, pay.Sent, pay.Runs, pay.Refused = rollout.Refused, 8, 7, 2
	tell(8, []rollout.Proxy{ProxyOf(1, "shop", "cart", "sidecar"), pay, ProxyOf(3, "bank", "gate", "router")})
	tell(8, nil, 3)
}

// Reporting begins the report of a discovery, and returns what sends its messages about proxies.
func (m *Mesh) Reporting(s *store.Store) (tell func(revision int64, proxies []rollout.Proxy, gone ...uint64)) {
	m.t.Helper()
	send := m.Reports(s)
	return func(revision int64, proxies []rollout.Proxy, gone ...uint64) {
		m.t.Helper()
		send(rollout.Message{Revision: revision, Proxies: proxies, Gone: gone})
	}
}

// Reports begins the report of a discovery, and returns what sends its messages, which it numbers.
func (m *Mesh) Reports(s *store.Store) (send func(rollout.Message)) {
	m.t.Helper()
	keeper, err := rollout.New(s).Keep(m.t.Context(), "eu-mcp")
	require.NoError(m.t, err)
	m.t.Cleanup(func() { keeper.Close(context.Background()) })
	id, err := keeper.Begin(m.t.Context(), "eu-1")
	require.NoError(m.t, err)
	number := int64(0)
	return func(message rollout.Message) {
		m.t.Helper()
		number++
		message.Number = number
		require.NoError(m.t, keeper.Report(m.t.Context(), id, message))
	}
}

// ReportRefusal applies web and api of shop as revision 1 and changes web as revision 2, which
// concerns three proxies: cart.shop runs it, pay.shop refuses it, and gate.bank does not answer. It
// returns what sends further messages.
func (m *Mesh) ReportRefusal() (send func(rollout.Message)) {
	m.t.Helper()
	m.Apply(VirtualService("shop", "web", "web.shop") + "---\n" + VirtualService("shop", "api", "api.shop"))
	m.Apply(VirtualService("shop", "web", "other.shop"))
	send = m.Reports(m.Store())
	web := rollout.Resource{Group: "networking.istio.io", Kind: "VirtualService", Namespace: "shop", Name: "web"}
	cart, pay, gate := ProxyOf(1, "shop", "cart", "sidecar"), ProxyOf(2, "shop", "pay", "sidecar"), ProxyOf(3, "bank", "gate", "router")
	pay.State, pay.Sent, pay.Runs, pay.Refused = rollout.Refused, 2, 1, 1
	pay.Refusals = []rollout.Refusal{{
		TypeURL: "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", Resource: "80", Reason: "no such thing",
		Since: time.Now(), Sources: []rollout.Source{{Resource: web, Path: "spec.http[0]"}},
	}}
	gate.State, gate.Sent, gate.Runs = rollout.Sending, 2, 1
	send(rollout.Message{
		Revision: 2, Proxies: []rollout.Proxy{cart, pay, gate},
		Audiences: []rollout.Audience{{Resource: web, Everyone: true}},
		Rollouts: []rollout.Rollout{{Revision: 2, After: 1, Began: time.Now(), Parts: []rollout.Part{
			{Namespace: "bank", Concerned: 1}, {Namespace: "shop", Concerned: 2, Ran: 1, Refused: 1, Took: []uint64{2500}},
		}}},
	})
	return send
}

// ProxyOf is a new proxy that is in step.
func ProxyOf(stream uint64, namespace, name, role string) rollout.Proxy {
	return rollout.Proxy{Stream: stream, State: rollout.Synced, Description: &rollout.Description{
		Node: role + "~10.0.0.1~" + name + "." + namespace + "~" + namespace + ".svc.cluster.local", Proxy: name + "." + namespace, Namespace: namespace, Role: role,
		ServiceAccount: "default", Labels: map[string]string{"app": name}, Addresses: []string{"10.0.0.1", "fd00::1"}, Envoy: "1.40.0", Protocol: "delta", Connected: time.Now(),
	}}
}
