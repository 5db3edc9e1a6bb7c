package inspect_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
)

// metric is the value of a line of /metrics; 0 if there is none.
func (b *bench) metric(line string) float64 {
	b.t.Helper()
	_, text := b.get("/metrics")
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + ` (.*)$`).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(found[1], 64)
	require.NoError(b.t, err)
	return value
}

const timeout = `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: web}, spec: {host: web.shop, trafficPolicy: {connectionPool: {tcp: {connectTimeout: 1s}}}}}`

func TestAnAnswerIsMeasuredFromTheBeginningOfItsChange(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	one, other := b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType), b.connect(node("sidecar", "10.0.0.2", "vm-2"), push.ClusterType)
	one.accept(1)
	other.accept(1)
	eventually(b, "/debug/proxies", func(all proxies) bool { return len(all) == 2 && all[0].Current && all[1].Current })
	b.apply(timeout)
	one.accept(1)
	other.nack(other.receive(), "no")
	page := eventually(b, "/debug/push", func(q queue) bool { return len(q.Pushes) == 2 && q.Pushes[0].Acks == 1 && q.Pushes[0].Nacks == 1 })
	require.Equal(t, 2, page.Pushes[0].Messages)
	require.Positive(t, page.Pushes[0].Bytes)
	require.Positive(t, page.Pushes[0].LastAck)
	require.Zero(t, page.Pushes[1].Messages, "what proxies are sent when they come is no change")

	const labels = `{type="envoy.config.cluster.v3.Cluster"}`
	require.InDelta(t, 1, b.metric("pgmesh_discovery_arrival_to_ack_seconds_count"+labels), 0)
	require.InDelta(t, page.Pushes[0].LastAck, b.metric("pgmesh_discovery_arrival_to_ack_seconds_sum"+labels), 1e-9)
	require.Zero(t, b.metric("pgmesh_discovery_commit_to_ack_seconds_count"+labels), "a program does not tell of commits")
}

// committing is a source that tells when its batches were committed.
type committing struct{ batches chan kinds.Batch }

func (committing) Name() string { return "committing" }

func (committing) Ready() (string, error) { return "", nil }

func (c committing) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	for {
		select {
		case b := <-c.batches:
			if err := apply(b); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestTheTimeSinceTheCommitIsMeasured(t *testing.T) {
	t.Parallel()
	source := committing{make(chan kinds.Batch)}
	b := startWith(t, source, ads.Limits{})
	documents, err := kinds.Parser{DefaultNamespace: "shop"}.Parse("test.yaml", []byte(web+"---\n"+timeout))
	require.NoError(t, err)
	batch := func(revision int64, committed time.Time, d *kinds.Document) {
		source.batches <- kinds.Batch{Revision: revision, Committed: committed, Changes: []kinds.Change{{Key: d.Resource.Key(), Resource: d.Resource}}}
	}
	batch(1, time.Time{}, documents[0])
	p := b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType)
	p.accept(1)
	eventually(b, "/debug/proxies", func(all proxies) bool { return len(all) == 1 && all[0].Current })
	committed := time.Now().Add(-3 * time.Second)
	batch(2, committed, documents[1])
	p.accept(1)
	page := eventually(b, "/debug/push", func(q queue) bool { return len(q.Pushes) == 2 && q.Pushes[0].Acks == 1 })
	require.WithinDuration(t, committed, *page.Pushes[0].Committed, 0)
	const labels = `{type="envoy.config.cluster.v3.Cluster"}`
	require.InDelta(t, 1, b.metric("pgmesh_discovery_commit_to_ack_seconds_count"+labels), 0)
	require.GreaterOrEqual(t, b.metric("pgmesh_discovery_commit_to_ack_seconds_sum"+labels), 3.0)
}
