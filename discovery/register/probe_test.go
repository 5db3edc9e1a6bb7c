package register_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestTheProbeOfTheGroupIsToldAndToldAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	d.apply(group + "  probe: {periodSeconds: 2, failureThreshold: 3, httpGet: {port: 8080, path: /healthz, httpHeaders: [{name: a, value: b}]}}\n")
	described := described("a", "cart")
	described.Services[0].Health = unknown
	m := d.connect("", described)
	probe := m.told().GetRegistered().GetProbe()
	require.Equal(t, "/healthz 8080 2s", fmt.Sprint(probe.GetHttp().GetPath(), " ", probe.GetHttp().GetPort(), " ", probe.GetPeriod().AsDuration()))
	require.Equal(t, "a", probe.GetHttp().GetHeaders()[0].GetName())
	require.EqualValues(t, 3, probe.GetFailureThreshold())
	require.Nil(t, probe.GetTimeout(), "the agent knows the defaults")
	require.Equal(t, unknown, d.one().GetService().GetHealth(), "nobody knows yet")

	d.apply(group + "  probe: {tcpSocket: {port: 1}}\n")
	require.EqualValues(t, 1, m.told().GetRegistered().GetProbe().GetTcp().GetPort())
	d.one()
	d.apply(group + "  probe: {exec: {command: [a, b]}}\n")
	require.Equal(t, []string{"a", "b"}, m.told().GetRegistered().GetProbe().GetExec().GetCommand())
	d.one()
	d.apply(group + "  probe: {grpc: {port: 2, service: s}}\n")
	require.Equal(t, "s", m.told().GetRegistered().GetProbe().GetGrpc().GetService())
	d.one()
	d.apply(group)
	require.Nil(t, m.told().GetRegistered().GetProbe())
	require.Equal(t, healthy, d.one().GetService().GetHealth(), "who is probed by nobody is well")
}

// mcp-server may have a group before it comes here, and make an entry by it.
func TestTheProbeIsToldWhenTheGroupIsThere(t *testing.T) {
	t.Parallel()
	d := startEmpty(t, false)
	d.apply("")
	m := d.connect("", described("a", "cart"))
	d.one()
	require.Eventually(t, func() bool { return strings.Contains(d.shown(), `"state": "registered"`) }, limit, time.Millisecond)
	d.apply(group + "  probe: {tcpSocket: {port: 1}}\n")
	require.EqualValues(t, 1, m.told().GetRegistered().GetProbe().GetTcp().GetPort(), "and nothing was told before that would end the agent's own probe")
	require.Equal(t, "cart", d.one().GetServiceAccount())

	// Nor does it lose the probe when the group goes, and comes back.
	d.apply("", kinds.Key{Kind: mesh.WorkloadGroup, Namespace: "shop", Name: "cart"})
	require.Equal(t, "cart", d.one().GetServiceAccount(), "as it was")
	d.apply(group + "  probe: {tcpSocket: {port: 2}}\n")
	require.EqualValues(t, 2, m.told().GetRegistered().GetProbe().GetTcp().GetPort())
}
