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

// Reporting begins the report of a discovery, and returns what sends its messages.
func (m *Mesh) Reporting(s *store.Store) (tell func(revision int64, proxies []rollout.Proxy, gone ...uint64)) {
	m.t.Helper()
	keeper, err := rollout.New(s).Keep(m.t.Context(), "eu-mcp")
	require.NoError(m.t, err)
	m.t.Cleanup(func() { keeper.Close(context.Background()) })
	id, err := keeper.Begin(m.t.Context(), "eu-1")
	require.NoError(m.t, err)
	number := int64(0)
	return func(revision int64, proxies []rollout.Proxy, gone ...uint64) {
		m.t.Helper()
		number++
		require.NoError(m.t, keeper.Report(m.t.Context(), id, rollout.Message{Number: number, Revision: revision, Proxies: proxies, Gone: gone}))
	}
}

// ProxyOf is a new proxy that is in step.
func ProxyOf(stream uint64, namespace, name, role string) rollout.Proxy {
	return rollout.Proxy{Stream: stream, State: rollout.Synced, Description: &rollout.Description{
		Node: role + "~10.0.0.1~" + name + "." + namespace + "~" + namespace + ".svc.cluster.local", Proxy: name + "." + namespace, Namespace: namespace, Role: role,
		ServiceAccount: "default", Labels: map[string]string{"app": name}, Addresses: []string{"10.0.0.1", "fd00::1"}, Envoy: "1.40.0", Protocol: "delta", Connected: time.Now(),
	}}
}
