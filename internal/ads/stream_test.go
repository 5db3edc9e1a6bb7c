package ads_test

import (
	"context"
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

func TestRequestsAreHeldUntilTheFirstSnapshot(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		c := connect(s)
		c.ask(clusters)
		c.ask(listeners)
		c.ask("test/Unknown")
		s.heard.await(t, "opened "+nodeID)
		s.publish("r1", sets{clusters: set("a=1")})
		// The stream answers the requests in order, whether it reads them before or after it finds
		// the snapshot.
		require.Equal(t, "test", c.expect(clusters, "r1", "a=1").identifier)
		c.expect(listeners, "r1")
		c.expect("test/Unknown", "r1")
	})
}

func TestTheRequestedAliasIsEchoed(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, func(cfg *ads.Config) {
			cfg.Canonical = func(typeURL string) string {
				if typeURL == "test/OldCluster" {
					return clusters
				}
				return typeURL
			}
		})
		s.publish("r1", sets{clusters: set("a=1")})
		c := connect(s)
		c.ask("test/OldCluster")
		old := c.expect("test/OldCluster", "r1", "a=1")
		c.ask(clusters)
		c.expect(clusters, "r1", "a=1") // an alias is a subscription of its own
		c.ack(old)
		s.publish("r2", sets{clusters: set("a=2")})
		c.expect("test/OldCluster", "r2", "a=2")
	})
}

func TestAFirstRequestIsAnsweredWhateverItsNonce(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		s.publish("r1", sets{clusters: set("a=1")})
		c := connect(s)
		for _, typeURL := range []string{clusters, listeners} {
			c.send(ask{typeURL: typeURL, nonce: "2026-08-22 10:00:00.000000 +0000 UTC"})
			require.Equal(t, typeURL, c.next().typeURL)
		}
	})
}

func TestStaleNoncesAreIgnored(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		s.publish("r1", sets{clusters: set("a=1")})
		c := connect(s)
		c.ask(clusters)
		first := c.expect(clusters, "r1", "a=1")
		c.ack(first)
		s.publish("r2", sets{clusters: set("a=2")})
		second := c.expect(clusters, "r2", "a=2")
		s.publish("r3", sets{clusters: set("a=3")})
		c.ack(first)
		c.nack(first, "too late")
		c.send(ask{typeURL: clusters, nonce: "never sent"})
		c.quiet() // the second is unanswered still
		c.ack(second)
		c.expect(clusters, "r3", "a=3")
		require.NotContains(t, s.heard.all(), "nacked "+clusters+" r2: too late")
	})
}

func TestOpenDecidesWhoIsServed(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, func(cfg *ads.Config) {
			cfg.Open = func(_ context.Context, node *corev3.Node, incremental bool) (*served.Subscriber, error) {
				return nil, status.Errorf(codes.PermissionDenied, "not you, %s, incremental: %t", node.GetId(), incremental)
			}
		})
		c := connect(s)
		c.ask(clusters)
		_, err := c.form.recv()
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, delta := c.form.(deltaForm)
		require.ErrorContains(t, err, fmt.Sprintf("not you, %s, incremental: %t", nodeID, delta))
		require.Empty(t, s.heard.all())
	})
}

func TestShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		s.publish("r1", nil)
		heard, silent := connect(s), connect(s)
		heard.ask(clusters)
		heard.expect(clusters, "r1")
		s.ads.Shutdown()
		for _, c := range []*client{heard, silent} {
			_, err := c.form.recv()
			require.Equal(t, codes.Unavailable, status.Code(err))
		}
		s.heard.await(t, "closed "+nodeID)
	})
}

func TestALostClientIsForgotten(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		closed := make(chan struct{})
		s := serve(t, nil)
		s2 := serve(t, func(cfg *ads.Config) {
			cfg.Open = func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) {
				return served.NewSubscriber(func() { close(closed) }), nil
			}
		})
		s.publish("r1", nil)
		for range 3 {
			c := connect(s)
			c.ask(clusters)
			c.expect(clusters, "r1")
			c.cancel()
			s.heard.await(t, "closed "+nodeID)
		}
		held := connect(s2)
		held.ask(clusters)
		s2.heard.await(t, "opened "+nodeID)
		held.cancel()
		<-closed
	})
}

func TestAStreamMayAskForOnlySoManyTypes(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		s.publish("r1", sets{})
		c := connect(s)
		for i := range 1000 {
			c.ask(fmt.Sprint("test/", i))
			c.next()
		}
		c.ask("test/7") // again is no new one
		c.ask("test/1000")
		for {
			if _, err := c.form.recv(); err != nil {
				require.Equal(t, codes.ResourceExhausted, status.Code(err))
				return
			}
		}
	})
}
