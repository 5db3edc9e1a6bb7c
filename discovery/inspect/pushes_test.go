package inspect_test

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// queue is /debug/push, with its documented names.
type queue struct {
	Known, Pushed    string
	Waiting, Proxies int
	Behind           []struct {
		Proxy, Revision, Newest string
		Seconds                 float64
		Types                   []struct{ Type, Status string }
	}
	Limits []limit
	Pushes []struct {
		Revision                  string
		Batches, Changes, Proxies int
		Messages, Bytes           int
		Acks, Nacks               int
		LastAck                   float64 `json:"last_ack_seconds"`
		Arrived, Begun            time.Time
		Committed                 *time.Time
		Seconds                   float64
		Translated                []struct {
			Type             string
			Seconds          float64
			Resources, Bytes int
		}
	}
}

type limit struct {
	Limit          string
	Value, Seconds float64
	HeldBack       int `json:"held_back"`
	TurnedAway     int `json:"turned_away"`
}

func TestLimitsAreToldWithHowOftenTheyWereReached(t *testing.T) {
	t.Parallel()
	memory := source.NewMemory()
	b := startWith(t, memory, ads.Limits{Requests: 1000, RequestBurst: 1, Names: 2})
	memory.Replace()
	p := b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType, push.ListenerType, push.RouteType)
	page := eventually(b, "/debug/push", func(q queue) bool { return q.Limits[2].HeldBack > 0 })
	require.Equal(t, limit{Limit: "pushes"}, page.Limits[0])
	require.Equal(t, "requests", page.Limits[2].Limit)
	require.InDelta(t, 1000, page.Limits[2].Value, 0)
	require.Positive(t, page.Limits[2].Seconds)
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: push.EndpointType, ResourceNamesSubscribe: []string{"a", "b", "c"}})
	eventually(b, "/debug/push", func(q queue) bool { return q.Limits[3] == limit{Limit: "names", Value: 2, TurnedAway: 1} })
}

func TestPushesAreRemembered(t *testing.T) {
	t.Parallel()
	b := start(t)
	begun := time.Now()
	b.apply(web)
	b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType).accept(1)
	b.connect(node("sidecar", "10.0.0.2", "vm-2"), push.ClusterType).accept(1)
	eventually(b, "/debug/proxies", func(all proxies) bool { return len(all) == 2 && all[0].Current && all[1].Current })
	b.apply(`{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: web}, spec: {hosts: [web.shop], http: [{route: [{destination: {host: web.shop}}], timeout: 7s}]}}`)
	page := eventually(b, "/debug/push", func(q queue) bool { return q.Pushed == "2" })
	require.Equal(t, "2", page.Known)
	require.Zero(t, page.Waiting)
	require.Equal(t, 2, page.Proxies)
	require.Len(t, page.Pushes, 2)
	last := page.Pushes[0]
	require.Equal(t, "2", last.Revision)
	require.Equal(t, []int{1, 1, 2}, []int{last.Batches, last.Changes, last.Proxies})
	require.Nil(t, last.Committed, "a program does not tell")
	require.WithinRange(t, last.Arrived, begun, last.Begun)
	require.Positive(t, last.Seconds)
	require.Equal(t, "routes", last.Translated[0].Type)
	require.Len(t, last.Translated, 1)
	require.Positive(t, last.Translated[0].Bytes)
}

func TestOnlySoManyPushesAreRemembered(t *testing.T) {
	t.Parallel()
	b := start(t)
	for range 60 {
		b.apply(web)
	}
	page := eventually(b, "/debug/push", func(q queue) bool { return q.Pushed == "60" })
	require.LessOrEqual(t, len(page.Pushes), 50)
	require.Equal(t, "60", page.Pushes[0].Revision)
}

func TestProxiesThatAreBehindAreTold(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType).accept(1)
	slow := b.connect(node("sidecar", "10.0.0.2", "vm-2"), push.ClusterType)
	slow.receive()
	page := eventually(b, "/debug/push", func(q queue) bool { return len(q.Behind) == 1 })
	require.Equal(t, "vm-2.shop", page.Behind[0].Proxy)
	require.Equal(t, "1", page.Behind[0].Revision)
	require.Equal(t, "clusters", page.Behind[0].Types[0].Type)
	require.Equal(t, "stale", page.Behind[0].Types[0].Status)
	require.Positive(t, page.Behind[0].Seconds)
	require.InDelta(t, 1, b.metric(`pgmesh_discovery_proxies_behind{status="stale"}`), 0)
	require.InDelta(t, 0, b.metric(`pgmesh_discovery_proxies_behind{status="nacked"}`), 0)
	require.GreaterOrEqual(t, b.metric("pgmesh_discovery_longest_wait_seconds"), page.Behind[0].Seconds)
	slow.leave()
	eventually(b, "/debug/push", func(q queue) bool { return len(q.Behind) == 0 && q.Proxies == 1 })
}
