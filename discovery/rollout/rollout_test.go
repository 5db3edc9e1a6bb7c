package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
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

// Each push is reported with how many proxies it concerned, and how many run it, by namespace.
func TestRolloutsAreReportedByNamespace(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	b.connect("a", "shop")
	d := b.connect("d", "shop")
	c := b.connect("c", "bank")
	for _, name := range []string{"a.shop", "d.shop", "c.bank"} {
		b.await(name, "synced 1")
	}
	require.Empty(t, b.reports.rollout(1), "what a proxy is sent when it connects is no change")

	b.apply(service("pay", "*"))
	b.awaitRollout(2, "bank: 1 of 1; shop: 2 of 2 after 1")
	b.apply(service("vault", "bank"))
	b.awaitRollout(3, "bank: 1 of 1 after 2")
	b.apply(service("cellar", "nobody"))
	b.awaitRollout(4, "nobody after 3")

	d.behave(push.ClusterType, false)
	c.behave("", true)
	b.apply(service("cart", "*"))
	b.awaitRollout(5, "bank: 0 of 1; shop: 1 of 2, 1 refused after 4")
	c.leave()
	b.awaitRollout(5, "bank: 0 of 1, 1 away; shop: 1 of 2, 1 refused after 4")
	d.behave("", false)
	b.apply(strings.Replace(service("cart", "*"), "number: 80", "number: 81", 1))
	b.awaitRollout(6, "shop: 2 of 2 after 5")
	b.awaitRollout(5, "bank: 0 of 1, 1 away; shop: 2 of 2 after 4")

	b.reports.end()
	b.awaitRollout(5, "bank: 0 of 1, 1 away; shop: 2 of 2 after 4")
	b.awaitRollout(6, "shop: 2 of 2 after 5")
}

// A mesh that went back, as when its database was restored, has revisions of the same numbers again. No
// report names one twice, for mcp-server takes none that does.
func TestAMeshThatWentBackIsReportedAnew(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	a := b.connect("a", "shop")
	b.await("a.shop", "synced 1")
	b.apply(service("pay", "*"))
	b.awaitRollout(2, "shop: 1 of 1 after 1")
	a.behave("", true)
	b.apply(service("lost", "*"))
	b.awaitRollout(3, "shop: 0 of 1 after 2")

	b.revision = 0
	b.apply(service("restored", "*"))
	a.behave("", false)
	b.await("a.shop", "synced 1")
	b.connect("d", "shop")
	b.await("d.shop", "synced 1")
	b.apply(service("cart", "*"))
	b.awaitRollout(2, "shop: 2 of 2 after 1")
	b.apply(service("vault", "nobody"))
	b.awaitRollout(3, "nobody after 2")

	b.reports.end()
	b.await("a.shop", "unknown")
	b.await("a.shop", "synced 3")
	b.awaitRollout(3, "nobody after 2")
	b.awaitRollout(2, "shop: 2 of 2 after 1")
	b.reports.mu.Lock()
	defer b.reports.mu.Unlock()
	for _, m := range b.reports.messages {
		named := map[int64]bool{}
		for _, r := range m.GetRollouts() {
			require.False(t, named[r.GetRevision()], "revision %d is there twice", r.GetRevision())
			named[r.GetRevision()] = true
		}
	}
}

// What a proxy refuses is reported with Envoy's words, and since when.
func TestRefusalsAreReported(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	a := b.connect("a", "shop")
	b.await("a.shop", "synced 1")
	a.behave(push.ClusterType, false)
	before := time.Now()
	b.apply(service("cart", "*"))
	b.await("a.shop", "runs 1, refuses 1 of 2")
	refusals := b.reports.of("a.shop").GetRefusals()
	require.Len(t, refusals, 1)
	require.Equal(t, []string{push.ClusterType, "outbound|80||cart.shop", "not this one"},
		[]string{refusals[0].GetTypeUrl(), refusals[0].GetResource(), refusals[0].GetReason()})
	require.WithinRange(t, refusals[0].GetSince().AsTime(), before, time.Now())
	require.Len(t, refusals[0].GetSources(), 1)
	require.Equal(t, "cart", refusals[0].GetSources()[0].GetName())
}

// When the last proxy has come to run a change, that is reported at once: not at the next comparison.
func TestTheLastAnswerIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	b.connect("a", "shop")
	b.await("a.shop", "synced 1")
	b.reportsAtOnce("a.shop")
}

// One that refuses what it was sent keeps nobody waiting for what is known of the others.
func TestWhoRefusesHoldsUpNoReportOfTheOthers(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	b.connect("a", "shop")
	b.await("a.shop", "synced 1")
	c := b.connect("c", "shop")
	b.await("c.shop", "synced 1")
	c.behave(push.ClusterType, false)
	b.apply(service("bad", "*"))
	b.await("c.shop", "runs 1, refuses 1 of 2")
	b.reportsAtOnce("a.shop")
}

// A proxy that refuses what it has just asked for is in step with no later change, though that
// concerns others alone, and nobody has anything to answer.
func TestWhoRefusesWhatItAskedForIsNotInStep(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	for i := range 5 { // at times a comparison comes first
		name := fmt.Sprint("a", i)
		a := b.connect(name, "shop")
		b.await(name+".shop", fmt.Sprint("synced ", b.revision))
		a.behave(push.RouteType, false)
		require.NoError(t, a.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: push.RouteType, ResourceNamesSubscribe: []string{"80"}}))
		poll.Within(t, 20*time.Second, func(context.Context) error {
			if !b.refused(name) {
				return errors.New("it has refused nothing yet")
			}
			return nil
		})
		b.apply(service(fmt.Sprint("s", i), "bank"))
		b.awaitRollout(b.revision, fmt.Sprintf("nobody after %d", b.revision-1))
		require.Contains(t, b.reports.state(name+".shop"), "refuses 1")
	}
}

// reportsAtOnce makes changes, and requires that they are reported sooner than by comparisons.
func (b *bench) reportsAtOnce(proxy string) {
	b.t.Helper()
	var took []time.Duration
	for i := range 15 {
		b.await(proxy, fmt.Sprint("synced ", b.revision))
		begun := time.Now()
		b.apply(service(fmt.Sprint("s", i), "*"))
		b.await(proxy, fmt.Sprint("synced ", b.revision))
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	require.Less(b.t, took[3], 200*time.Millisecond, "%v: a comparison comes each 250 ms", took) // others may have the processors at times
}

// How long its last change took is reported of each proxy, a little later.
func TestTimesAreReported(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(service("web", "*"))
	b.connect("a", "shop")
	b.connect("c", "bank")
	b.await("a.shop", "synced 1")
	b.await("c.bank", "synced 1")
	b.apply(service("cellar", "bank"))
	poll.Within(t, 20*time.Second, func(context.Context) error {
		b.reports.mu.Lock()
		defer b.reports.mu.Unlock()
		if streams := b.reports.times.GetStreams(); len(streams) != 1 || b.reports.proxies[streams[0]].GetDescription().GetNamespace() != "bank" {
			return fmt.Errorf("times of %v", streams)
		}
		return nil
	})
	require.NotZero(t, b.reports.times.GetTook()[0])
}

// Where many proxies need long for a change, they are not described one by one, but for a while all
// are reported to run the revision before.
func TestManyWhoNeedLongAreReportedTogether(t *testing.T) {
	t.Parallel()
	const proxies = 150
	b := start(t)
	b.apply(service("one", "*"))
	var all []*proxy
	for i := range proxies {
		all = append(all, b.connect(fmt.Sprint("p", i), "shop"))
	}
	for i := range proxies {
		b.await(fmt.Sprintf("p%d.shop", i), "synced 1")
	}
	for _, p := range all {
		p.behave("", true)
	}
	begun := time.Now()
	b.apply(service("two", "*"))
	b.await("p0.shop", "runs 1, is sent 2")
	require.Greater(t, time.Since(begun), 1500*time.Millisecond)
	for _, p := range all {
		p.behave("", false)
	}
	b.await("p0.shop", "synced 2")
}
