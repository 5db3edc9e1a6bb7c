package mcp_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	meshv1 "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// source is a server that marks the ends of batches.
type source struct {
	*endpoint
	topic     served.Topic
	sets      map[string]*served.Set
	committed *timestamppb.Timestamp // nil: it does not tell
}

func newSource(t *testing.T) *source {
	s := &source{sets: map[string]*served.Set{}}
	s.endpoint = listen(t, s.register)
	return s
}

func (s *source) register(g *grpc.Server) {
	ads.NewServer(ads.Config{
		Open: func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) { return s.topic.Subscribe(), nil },
		Plan: ads.Plan{When: mcpv1.BatchTypeURL, Stages: []ads.Stage{
			{Part: ads.Whole, Overlap: true},
			{Types: []string{mcpv1.BatchTypeURL}, Part: ads.Whole},
		}},
		Identifier: mcpv1.Identifier + "/test",
	}).Register(g)
}

// commit publishes a revision that puts some resources and removes others.
func (s *source) commit(revision int64, put []*kinds.Resource, removed ...kinds.Key) {
	next := map[string]*served.Set{}
	maps.Copy(next, s.sets)
	for _, r := range put {
		typeURL, version := r.Kind.TypeURL(), host(r)
		body, err := r.Any(version)
		require.NoError(s.t, err)
		encoded := &served.Resource{Name: r.Key().FullName(), Version: version, Body: body}
		next[typeURL] = next[typeURL].With([]*served.Resource{encoded}, nil)
	}
	for _, key := range removed {
		next[key.Kind.TypeURL()] = next[key.Kind.TypeURL()].With(nil, []string{key.FullName()})
	}
	end, err := anypb.New(&mcpv1.Batch{Revision: revision, Committed: s.committed})
	require.NoError(s.t, err)
	name := strconv.FormatInt(revision, 10)
	next[mcpv1.BatchTypeURL] = served.NewSet(&served.Resource{Name: mcpv1.BatchName, Version: name, Body: end})
	s.sets = next
	s.topic.Publish(&served.Snapshot{Revision: name, Sets: next})
}

type resources = []*kinds.Resource

func TestBatchesAreAtomic(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		s.commit(7, resources{entry("a", "1"), entry("b", "1"), route("r", "1")})
		f := follow(t, s.addr, form)
		f.expect(7, "ServiceEntry default/a=1", "ServiceEntry default/b=1", "VirtualService default/r=1")
		s.commit(8, resources{entry("a", "2"), route("r", "2")}, entry("b", "").Key())
		f.expect(8, "ServiceEntry default/a=2", "ServiceEntry default/b gone", "VirtualService default/r=2")
		s.commit(9, nil) // no change for this client, but a revision
		f.expect(9)
		require.True(t, f.client.Status().Synced)
		require.True(t, f.client.Status().Connected)
	})
}

func TestBatchCommitted(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		s.commit(7, resources{entry("a", "1")})
		f := follow(t, s.addr, form)
		require.Zero(t, f.expect(7, "ServiceEntry default/a=1").Committed, "older servers do not tell")
		committed := time.Date(2026, 11, 21, 3, 4, 5, 678901000, time.UTC)
		s.committed = timestamppb.New(committed)
		s.commit(8, resources{entry("a", "2")})
		require.Equal(t, committed, f.expect(8, "ServiceEntry default/a=2").Committed)
		s.committed = &timestamppb.Timestamp{Seconds: -1 << 62} // no time at all
		s.commit(9, nil)
		require.Zero(t, f.expect(9).Committed)
	})
}

func TestFirstBatchOfEmptyServer(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		f := follow(t, s.addr, form, func(cfg *mcp.Config) { cfg.Kinds = nil }) // every kind
		s.commit(0, nil)
		f.expect(0)
		mesh := &kinds.Resource{Kind: meshConfig, Namespace: "istio-system", Name: "meshconfig", Spec: kinds.SpecOf(&meshv1.MeshConfig{RootNamespace: "x"})}
		s.commit(1, resources{mesh})
		require.Len(t, f.expect(1, "MeshConfig istio-system/meshconfig="+host(mesh)).Changes, 1)
	})
}

func TestBatchesMergeDuringApply(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		s.commit(1, resources{entry("a", "1")})
		f := follow(t, s.addr, form)
		f.expect(1, "ServiceEntry default/a=1")
		s.commit(2, resources{entry("a", "2"), route("r", "2")})
		f.expect(2, "ServiceEntry default/a=2", "VirtualService default/r=2")
		for revision := int64(3); revision <= 50; revision++ {
			s.commit(revision, resources{entry("a", strconv.FormatInt(revision, 10)), route("r", strconv.FormatInt(revision, 10))})
		}
		for b := (kinds.Batch{}); b.Revision < 50; { // whatever is merged, no batch has half of a revision
			b = <-f.batches
			require.Len(t, b.Changes, 2)
			require.Equal(t, strconv.FormatInt(b.Revision, 10), host(b.Changes[0].Resource))
			require.Equal(t, strconv.FormatInt(b.Revision, 10), host(b.Changes[1].Resource))
			require.Equal(t, host(b.Changes[1].Resource), b.Changes[1].Version)
		}
	})
}

func TestReconnectDeliversMissedChangesOnce(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		s.commit(1, resources{entry("a", "1"), entry("b", "1"), entry("c", "1")})
		f := follow(t, s.addr, form)
		f.expect(1, "ServiceEntry default/a=1", "ServiceEntry default/b=1", "ServiceEntry default/c=1")

		s.kill()
		s.commit(2, resources{entry("a", "2")})
		s.commit(3, resources{route("r", "3")}, entry("b", "").Key())
		s.start()
		f.expect(3, "ServiceEntry default/a=2", "ServiceEntry default/b gone", "VirtualService default/r=3")
		s.commit(4, resources{entry("c", "4")})
		f.expect(4, "ServiceEntry default/c=4")

		for revision := int64(5); revision < 10; revision++ { // nothing changes while the connection is cut: nothing is delivered
			s.cut()
			version := strconv.FormatInt(revision, 10)
			s.commit(revision, resources{entry("c", version)})
			f.expect(revision, "ServiceEntry default/c="+version)
		}
		require.Positive(t, f.client.Status().Reconnects)
	})
}

func TestStartingReplicaIsNotEmpty(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		s.commit(1, resources{entry("a", "1")})
		f := follow(t, s.addr, form)
		f.expect(1, "ServiceEntry default/a=1")
		s.kill()
		s.topic = served.Topic{} // it has not loaded anything yet
		s.start()
		s.commit(2, resources{entry("b", "2")})
		f.expect(2, "ServiceEntry default/b=2")
		s.kill()
		s.commit(3, nil, entry("a", "").Key(), entry("b", "").Key())
		s.start()
		f.expect(3, "ServiceEntry default/a gone", "ServiceEntry default/b gone")
	})
}

func TestApplyErrorEndsRun(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	s.commit(1, resources{entry("a", "1")})
	client := mcp.New(mcp.Config{
		Targets: []string{s.addr}, Kinds: both, Name: "test",
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	refusal := errors.New("the disk is full")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for range 2 { // what was refused is not taken as delivered: it comes again
		calls := 0
		err := client.Run(ctx, func(b kinds.Batch) error {
			calls++
			require.Len(t, b.Changes, 1)
			return refusal
		})
		require.ErrorIs(t, err, refusal)
		require.Equal(t, 1, calls)
		require.False(t, client.Status().Synced)
	}
}
