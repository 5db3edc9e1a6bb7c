package push_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
	"github.com/pgmesh/pgmesh/kinds"
)

// The storms are short by default; `make storm` has them at their full strength: 5,000 changes a
// second for STORM=30s, and 500 proxies.
const (
	stormServices = 200
	stormRate     = 5000 // changes a second
	usualStorm    = 2 * time.Second
	usualCrowd    = 40
	fullCrowd     = 500

	// mostLag is for a loaded machine under the race detector. The log tells what it was.
	mostLag = 30 * time.Second
)

// stormFor is how long a storm lasts and how many proxies are out in it.
func stormFor(t *testing.T) (time.Duration, int) {
	t.Helper()
	text := os.Getenv("STORM")
	if text == "" {
		return usualStorm, usualCrowd
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "STORM")
	return d, fullCrowd
}

// coast is a mesh out in a storm: services whose endpoints move all the time, and one, the beacon,
// whose endpoint tells which change it is.
type coast struct {
	*bench

	address string

	mu      sync.Mutex
	waiting []configstore.Change // made while a push is under way: they go together into the next
	more    chan struct{}
	number  atomic.Int64 // of the newest change of the beacon
	pushes  atomic.Int64
}

func newCoast(t *testing.T) *coast {
	t.Helper()
	c := &coast{bench: newBench(), more: make(chan struct{}, 1)}
	c.address = c.listen(t).Target()
	var all []configstore.Change
	for i := range stormServices {
		all = append(all, moved(i, 0))
	}
	c.push(append(all, beacon(0)))
	return c
}

// moved is a service with its endpoints somewhere else.
func moved(i, to int) configstore.Change {
	return storming(fmt.Sprintf("s%d", i), fmt.Sprintf("10.%d.%d.%d", to>>16&255, to>>8&255, to&255), "10.0.0.2", "10.0.0.3")
}

// beacon is the service whose first endpoint is the number of a change.
func beacon(n int64) configstore.Change {
	return storming("beacon", fmt.Sprintf("11.%d.%d.%d", n>>16&255, n>>8&255, n&255))
}

var beaconEndpoint = regexp.MustCompile(`\b11\.(\d+)\.(\d+)\.(\d+)\b`)

func storming(name string, addresses ...string) configstore.Change {
	entry, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	spec := &networking.ServiceEntry{
		Hosts: []string{name + ".shop.svc.cluster.local"}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
	}
	for _, a := range addresses {
		spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{Address: a})
	}
	r := &kinds.Resource{Kind: entry, Namespace: "shop", Name: name, Spec: kinds.SpecOf(spec)}
	return configstore.Change{Key: r.Key(), Resource: r}
}

// change adds to what the next push brings.
func (c *coast) change(changes ...configstore.Change) {
	c.mu.Lock()
	c.waiting = append(c.waiting, changes...)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// pushAll pushes what there is to push, as a source does, until the context ends.
func (c *coast) pushAll(ctx context.Context) {
	for {
		select {
		case <-c.more:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		changes := c.waiting
		c.waiting = nil
		c.mu.Unlock()
		if len(changes) > 0 {
			c.push(changes)
			c.pushes.Add(1)
		}
	}
}

// blow makes the storm: every twentieth change is of the beacon, the last of all too.
func (c *coast) blow(d time.Duration) (changes int) {
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for start := time.Now(); time.Since(start) < d; <-ticks.C {
		for due := int(time.Since(start).Seconds() * stormRate); changes < due; changes++ {
			c.change(moved(changes%stormServices, changes))
			if changes%20 == 0 {
				c.change(beacon(c.number.Add(1)))
			}
		}
	}
	c.change(beacon(c.number.Add(1)))
	return changes
}

// ship is a healthy proxy, which takes everything at once.
type ship struct {
	seen  atomic.Int64  // the number of the beacon
	there chan struct{} // closed once it has everything
	moved chan struct{} // whenever it sees the beacon
}

func (c *coast) ships(ctx context.Context, t *testing.T, sailing *sync.WaitGroup, n int) (fleet []*ship) {
	t.Helper()
	for i := range n {
		s := &ship{there: make(chan struct{}), moved: make(chan struct{}, 1)}
		fleet = append(fleet, s)
		o := proxy.Options{
			Address: c.address, Node: sailor(i), Incremental: i%2 == 0, Expect: proxy.Expected{Endpoints: stormServices + 1},
			Heard: s.hear, Served: func(time.Time) { close(s.there) },
		}
		sailing.Go(func() {
			if err := proxy.Run(ctx, o); err != nil {
				t.Error(err)
			}
		})
	}
	return fleet
}

// sailor is one of ten sorts of proxies.
func sailor(i int) *corev3.Node {
	return &corev3.Node{Id: fmt.Sprintf("sidecar~172.16.%d.%d~vm-%d.ns-%d~ns-%d.svc.cluster.local", i/250, i%250, i, i%10, i%10)}
}

func (s *ship) hear(r proxy.Response) {
	if r.Type != proxy.Endpoints || !bytes.Contains(r.Bytes, []byte("beacon")) {
		return
	}
	at := beaconEndpoint.FindSubmatch(r.Bytes)
	if at == nil {
		return
	}
	number := int64(0)
	for _, part := range at[1:] {
		n, _ := strconv.Atoi(string(part))
		number = number<<8 + int64(n)
	}
	s.seen.Store(number)
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// wait waits until the ship has seen a number of the beacon.
func (s *ship) wait(t *testing.T, number int64) {
	t.Helper()
	for timeout := time.After(patience); s.seen.Load() < number; {
		select {
		case <-s.moved:
		case <-timeout:
			t.Fatalf("a healthy proxy is at change %d of the beacon and never gets to %d", s.seen.Load(), number)
		}
	}
}

// wrecks are proxies that never acknowledge anything; every other one does not even read. Each has
// a connection of its own.
func (c *coast) wrecks(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for i := range n {
		conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		require.NoError(t, err)
		for _, typeURL := range []string{push.ClusterType, push.EndpointType, push.ListenerType} {
			require.NoError(t, s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: sailor(i), TypeUrl: typeURL}))
		}
		_, err = s.Recv()
		require.NoError(t, err)
		if i%2 == 0 {
			go func() {
				for err == nil {
					_, err = s.Recv()
				}
			}()
		}
	}
}

// heap is what is in use after the garbage is gone.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHealthyProxiesStayCurrentInAStorm has thousands of changes a second, and half of the proxies
// never acknowledge or never read. The others stay near the newest change and reach it at the end,
// and what the rest have not taken piles up nowhere.
func TestHealthyProxiesStayCurrentInAStorm(t *testing.T) {
	duration, crowd := stormFor(t)
	c := newCoast(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { c.pushAll(ctx) })
	c.wrecks(ctx, t, crowd/2)
	fleet := c.ships(ctx, t, &running, crowd/2)
	for _, s := range fleet {
		<-s.there
	}
	c.change(beacon(c.number.Add(1)))
	c.blow(duration / 2) // so that what is kept of any storm is there before this one, which is to add nothing to it
	for _, s := range fleet {
		s.wait(t, c.number.Load())
	}

	before := heap()
	watched, ended := make(chan time.Duration), make(chan struct{})
	go func() { watched <- c.worstLag(fleet, ended) }()
	changes := c.blow(duration)
	close(ended)
	lag, last := <-watched, time.Now()
	for _, s := range fleet {
		s.wait(t, c.number.Load())
	}
	caughtUp, grown := time.Since(last), int64(heap())-int64(before)

	t.Logf("%d changes in %v became %d pushes; healthy proxies were %v behind at worst, and current %v after the last change; the heap grew by %d KB",
		changes, duration, c.pushes.Load(), lag, caughtUp, grown>>10)
	require.Greater(t, changes, int(duration.Seconds()*stormRate*9/10), "there was no storm")
	require.Less(t, lag, mostLag, "how far a healthy proxy was behind")
	require.Less(t, caughtUp, mostLag, "how long after the last change a healthy proxy was current")
	// Each proxy that takes nothing holds on to the mesh that it was last sent, which is a larger
	// or a smaller one. A leak of a mesh a push is 13 MB a second.
	require.Less(t, grown, int64(16<<20+crowd*100<<10), "bytes that the storm left behind: a hundred KB a proxy, and some meshes")
}

// worstLag is how long, at most, it took a proxy to see the number that was the newest at some
// moment.
func (c *coast) worstLag(fleet []*ship, ended <-chan struct{}) (worst time.Duration) {
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for {
		newest, since := c.number.Load(), time.Now()
		for behind := true; behind; {
			select {
			case <-ticks.C:
			case <-ended:
				return worst
			}
			behind = false
			for _, s := range fleet {
				behind = behind || s.seen.Load() < newest
			}
			worst = max(worst, time.Since(since))
		}
	}
}

// TestProxiesThatComeBackTogetherAreServed cuts all proxies off at once, several times, while the
// mesh changes. All are served again, and nothing of the ones that left stays.
func TestProxiesThatComeBackTogetherAreServed(t *testing.T) {
	_, crowd := stormFor(t)
	c := newCoast(t)
	var left uint64
	for round := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.pushAll(ctx) })
		start := time.Now()
		fleet := c.ships(ctx, t, &running, crowd)
		c.change(beacon(c.number.Add(1)))
		for _, s := range fleet {
			<-s.there
			s.wait(t, c.number.Load())
		}
		t.Logf("%d proxies were served and current after %v", crowd, time.Since(start))
		cancel()
		running.Wait()
		c.settled(t)
		if now := heap(); round == 0 {
			left = now
		} else {
			require.Less(t, now, left+(8<<20), "bytes that are in use when all have left: more each time they come")
		}
	}
}

// settled waits until the engine has noticed that all proxies have left.
func (c *coast) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(c.Members()) == 0 }, patience, time.Millisecond)
}
