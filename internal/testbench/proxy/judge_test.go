package proxy_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// clustersOnly has clusters without endpoints.
func clustersOnly(names ...string) map[proxy.Type]map[string]proto.Message {
	all := map[string]proto.Message{}
	for _, n := range names {
		all[n] = &clusterv3.Cluster{Name: n, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}}
	}
	return map[proxy.Type]map[string]proto.Message{proxy.Clusters: all}
}

// judged runs a proxy that refuses a cluster of this name, and returns what is offered.
func judged(t *testing.T, address string, incremental bool, memory *proxy.Memory, bad string) (offers <-chan proxy.Offer, stop func()) {
	t.Helper()
	all := make(chan proxy.Offer, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- proxy.Run(ctx, proxy.Options{
			Address: address, Node: &corev3.Node{Id: "p"}, Incremental: incremental, Memory: memory,
			Heard: func(proxy.Response) {}, Served: func(time.Time) {},
			Judge: func(_ context.Context, o proxy.Offer) error {
				slices.Sort(o.Names)
				all <- o
				if slices.Contains(o.Names, bad) {
					return errors.New("it is bad")
				}
				return nil
			},
		})
	}()
	return all, func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// expectOffer waits for an offer of clusters.
func expectOffer(t *testing.T, offers <-chan proxy.Offer, added, removed []string) {
	t.Helper()
	for late := time.After(limit); ; {
		select {
		case o := <-offers:
			if o.Type == proxy.Clusters {
				require.Equal(t, added, o.Names)
				require.Equal(t, removed, o.Removed)
				return
			}
		case <-late:
			t.Fatalf("%v was not offered", added)
		}
	}
}

func offer(t *testing.T, topic *served.Topic, version string, names ...string) {
	t.Helper()
	publish(t, topic, version, clustersOnly(names...))
}

// A proxy that comes back says what it has, and is sent what is new.
func TestMemoryOutlivesAStream(t *testing.T) {
	t.Parallel()
	topic, address := serveTopic(t)
	memory := proxy.NewMemory()
	offer(t, topic, "1", "one", "two")
	offers, stop := judged(t, address, true, memory, "")
	expectOffer(t, offers, []string{"one", "two"}, nil)
	stop()
	publish(t, topic, "1", clustersOnly("one"))
	offers, stop = judged(t, address, true, memory, "")
	defer stop()
	expectOffer(t, offers, nil, []string{"two"})
}

// The server knows in which words a proxy has refused what.
func TestARefusalReachesTheServer(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		topic, server, address := serveADS(t)
		offer(t, topic, "1", "bad", "one")
		offers, stop := judged(t, address, incremental, nil, "bad")
		expectOffer(t, offers, []string{"bad", "one"}, nil)
		poll.Eventually(t, func(context.Context) error {
			for _, s := range server.Streams() {
				for _, of := range s.Types() {
					if of.Rejected.Reason != "" {
						require.Equal(t, "it is bad", of.Rejected.Reason)
						return nil
					}
				}
			}
			return errors.New("the server knows of no refusal")
		})
		stop()
	}
}
