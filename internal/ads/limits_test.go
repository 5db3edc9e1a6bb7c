package ads_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
)

func limited(l ads.Limits) func(*ads.Config) { return func(cfg *ads.Config) { cfg.Limits = l } }

func TestNewStreamsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, limited(ads.Limits{Arrivals: 20, ArrivalBurst: 1}))
		s.publish("r1", sets{clusters: set("a=1")})
		began := time.Now()
		for range 5 {
			c := connect(s)
			c.ask(clusters)
			c.expect(clusters, "r1", "a=1")
		}
		require.GreaterOrEqual(t, time.Since(began), 4*50*time.Millisecond)
		require.Contains(t, s.heard.all(), "waited for "+ads.ArrivalLimit)
	})
}

func TestClientsBeyondTheWaitingOnesAreToldToComeBack(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, limited(ads.Limits{Arrivals: .001, ArrivalBurst: 1, Waiting: 2}))
		s.publish("r1", sets{clusters: set("a=1")})
		first := connect(s)
		first.ask(clusters)
		first.expect(clusters, "r1", "a=1")
		for range 2 {
			connect(s).ask(clusters)
		}
		late := connect(s)
		late.ask(clusters) // which may yet have come before one of the two
		s.heard.await(t, "turned away by "+ads.ArrivalLimit)
		s.ads.Shutdown() // those that wait hear of it, too
	})
}

func TestAFloodOfRequestsSlowsOnlyItsClient(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, limited(ads.Limits{Requests: 1, RequestBurst: 3}))
		line := set("a=1")
		s.publish("r1", sets{clusters: line})
		flood, well := connect(s), connect(s)
		flood.ask(clusters)
		flood.expect(clusters, "r1", "a=1")
		for i := range 100 {
			flood.send(ask{typeURL: endpoints, subscribe: []string{fmt.Sprint(i)}, names: []string{fmt.Sprint(i)}})
		}
		s.heard.await(t, "waited for "+ads.RequestLimit)
		well.ask(clusters)
		well.expect(clusters, "r1", "a=1")
		s.publish("r2", sets{clusters: line.With([]*served.Resource{res("a", "2")}, nil), endpoints: set("0=1")})
		well.ask(listeners)
		well.expect(listeners, "r2")
	})
}

func TestAStreamMayAskForOnlySoManyNames(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, limited(ads.Limits{Names: 4}))
		s.publish("r1", sets{endpoints: set("a=1", "b=1"), routes: set("r=1")})
		c := connect(s)
		c.ask(endpoints, "a", "b", "missing")
		c.ack(c.next(), "a", "b", "missing")
		c.ask(routes, "r")
		c.expect(routes, "r1", "r=1")
		c.send(ask{typeURL: routes, subscribe: []string{"s"}, nonce: "any", names: []string{"r", "s"}})
		_, err := c.form.recv()
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.ErrorContains(t, err, "--max-proxy-names")
		require.Contains(t, s.heard.all(), "turned away by "+ads.NameLimit)
	})
}

// Of a client's reason, only the beginning is kept and logged.
func TestARefusalIsKeptShort(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		var log journal.Journal
		s := serve(t, func(cfg *ads.Config) { cfg.Log, cfg.Quarantine = slog.New(slog.NewTextHandler(&log, nil)), true })
		s.publish("r1", sets{clusters: set("a=1", "b=1")})
		c := connect(s)
		c.ask(clusters)
		c.send(ask{typeURL: clusters, nonce: c.next().nonce, refusal: "x" + strings.Repeat("ä", 3<<20)})
		c.next() // it is found out which
		reported := strings.Join(s.heard.all(), "\n")
		require.Contains(t, reported, "bytes more)")
		require.Less(t, len(reported), 8<<10)
		require.True(t, utf8.ValidString(reported))
		require.Less(t, len(log.String()), 8<<10)

		c.send(ask{typeURL: strings.Repeat("t", 2<<20)})
		for {
			if _, err := c.form.recv(); err != nil {
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				return
			}
		}
	})
}

// large is a set of a megabyte.
func large(version int) *served.Set {
	var all []*served.Resource
	for i := range 16 {
		all = append(all, res(fmt.Sprintf("n%d", i), fmt.Sprint(version)+strings.Repeat("x", 32<<10)))
	}
	return served.NewSet(all...)
}

// unreadWindow is how much a client's gRPC buffers of what the client does not read. Without it
// gRPC may buffer up to 16 MB a stream, which would be counted here with what the server keeps.
var unreadWindow = grpc.WithStaticStreamWindowSize(64 << 10)

// A client that reads nothing, and one that reads and never answers, delay nobody, although only
// one stream may push at a time. The server keeps nothing for them.
func TestStuckClientsDelayNobodyAndKeepNothing(t *testing.T) { //nolint:paralleltest // all memory is weighed
	for name, connect := range map[string]func(*server) *client{"delta": (*server).delta, "sotw": (*server).sotw} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // likewise
			s := serve(t, func(cfg *ads.Config) {
				makeBeforeBreak(time.Millisecond)(cfg)
				cfg.Limits.Pushes = 1
			})
			s.conn = dial(t, s.conn.Target(), unreadWindow)
			s.publish("r0", sets{clusters: large(0), listeners: set("l=0")})
			for range 3 {
				stuck := connect(s)
				stuck.ask(clusters)
				mute := connect(s)
				mute.ask(clusters)
				mute.next()
			}
			well := connect(s)
			well.ask(listeners)
			well.ack(well.expect(listeners, "r0", "l=0"))
			change := func(i int) {
				s.publish(fmt.Sprint("r", i), sets{clusters: large(i), listeners: set(fmt.Sprint("l=", i))})
				well.ack(well.expect(listeners, fmt.Sprint("r", i), fmt.Sprint("l=", i)))
			}
			for i := range 10 {
				change(i + 1)
			}
			before := inUse()
			for i := range 100 {
				change(i + 11)
			}
			after := inUse()
			t.Logf("after 100 changes of a megabyte, %d bytes where there were %d", after, before)
			require.Less(t, int64(after)-int64(before), int64(12<<20), "for six clients that lag behind by up to a version each")
			runtime.KeepAlive(well)
		})
	}
}
