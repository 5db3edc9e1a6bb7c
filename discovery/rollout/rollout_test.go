package rollout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/kinds"
)

var errGone = status.Error(codes.Unavailable, "the server goes")

func TestProxiesAreReportedWithWhatTheyRun(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	a, c := b.connect("a", "shop"), b.connect("c", "bank")
	b.await("a.shop", "synced 1")
	b.await("c.bank", "synced 1")

	b.apply(service("pay", "*"))
	b.await("a.shop", "synced 2")
	b.await("c.bank", "synced 2")

	a.behave(push.ClusterType, false)
	b.apply(service("cart", "*"))
	b.await("a.shop", "runs 2, refuses 1 of 3")
	b.await("c.bank", "synced 3")

	a.behave("", false)
	c.behave("", true)
	b.apply(strings.Replace(service("cart", "*"), "number: 80", "number: 81", 1)) // in place of what was refused
	b.await("a.shop", "synced 4")
	b.await("c.bank", "runs 3, is sent 4")
	c.behave("", false)
	b.await("c.bank", "synced 4")

	a.leave()
	b.await("a.shop", "unknown")
}

// A mesh in which nobody has written anything yet is at revision 0, and has proxies, too.
func TestAProxyOfAnEmptyMeshIsInStep(t *testing.T) {
	t.Parallel()
	b := start(t)
	step := b.config.Apply(kinds.Batch{})
	b.engine.Update(mesh.Build(step, nil), step)
	b.connect("a", "shop")
	b.await("a.shop", "synced 0")
}

// A change that concerns few costs a message without proxies, if they keep up.
func TestWhoIsInStepIsNotReportedAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	b.connect("a", "shop")
	b.await("a.shop", "synced 1")
	b.reports.mu.Lock()
	before := len(b.reports.messages)
	b.reports.mu.Unlock()
	b.apply(service("secret", "bank")) // which nobody sees
	b.await("a.shop", "synced 2")
	b.reports.mu.Lock()
	defer b.reports.mu.Unlock()
	require.Len(t, b.reports.messages, before+1)
	require.Empty(t, b.reports.messages[before].GetProxies())
}

func TestAnotherReportDescribesEveryProxyAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	b.connect("a", "shop")
	b.await("a.shop", "synced 1")
	b.reports.end()
	b.await("a.shop", "unknown")
	b.await("a.shop", "synced 1")
	b.reports.mu.Lock()
	defer b.reports.mu.Unlock()
	require.Equal(t, 2, b.reports.begun)
	require.Equal(t, "disco", b.reports.name)
	for _, p := range b.reports.proxies {
		require.Equal(t, "shop", p.GetDescription().GetNamespace())
		require.Equal(t, "delta", p.GetDescription().GetProtocol())
	}
}
