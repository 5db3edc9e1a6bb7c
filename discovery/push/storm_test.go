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

	// mostLag allows for a loaded machine under the race detector. The log has the real value.
	mostLag = 30 * time.Second
)

// stormFor returns how long a storm lasts, and how many proxies are in it.
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

// stormMesh is a mesh in a storm: services whose endpoints move all the time, and one, the beacon,
// whose endpoint is the number of the newest change.
type stormMesh struct {
	*bench

	address string

	mu      sync.Mutex
	waiting []kinds.Change // made during a push; they go together into the next
	more    chan struct{}
	number  atomic.Int64 // of the newest change of the beacon
	pushes  atomic.Int64
}

func newStormMesh(t *testing.T) *stormMesh {
	t.Helper()
	c := &stormMesh{bench: newBench(), more: make(chan struct{}, 1)}
	c.address = c.listen(t).Target()
	var all []kinds.Change
	for i := range stormServices {
		all = append(all, moved(i, 0))
	}
	c.push(append(all, beacon(0)))
	return c
}

// moved is a service with its endpoints elsewhere.
func moved(i, to int) kinds.Change {
	return storming(fmt.Sprintf("s%d", i), fmt.Sprintf("10.%d.%d.%d", to>>16&255, to>>8&255, to&255), "10.0.0.2", "10.0.0.3")
}

// beacon is the service whose first endpoint is the number of a change.
func beacon(n int64) kinds.Change {
	return storming("beacon", fmt.Sprintf("11.%d.%d.%d", n>>16&255, n>>8&255, n&255))
}

var beaconEndpoint = regexp.MustCompile(`\b11\.(\d+)\.(\d+)\.(\d+)\b`)

func storming(name string, addresses ...string) kinds.Change {
	entry, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	spec := &networking.ServiceEntry{
		Hosts: []string{name + ".shop.svc.cluster.local"}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
	}
	for _, a := range addresses {
		spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{Address: a})
	}
	r := &kinds.Resource{Kind: entry, Namespace: "shop", Name: name, Spec: kinds.SpecOf(spec)}
	return kinds.Change{Key: r.Key(), Resource: r}
}

// change adds changes to the next push.
func (c *stormMesh) change(changes ...kinds.Change) {
	c.mu.Lock()
	c.waiting = append(c.waiting, changes...)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// pushAll pushes what waits, as a source does, until the context ends.
func (c *stormMesh) pushAll(ctx context.Context) {
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

// storm makes changes at the storm's rate. Every twentieth is of the beacon, and so is the last.
func (c *stormMesh) storm(d time.Duration) (changes int) {
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

// healthyProxy accepts everything at once.
type healthyProxy struct {
	seen  atomic.Int64  // the number of the beacon
	there chan struct{} // closed once it has everything
	moved chan struct{} // receives whenever the beacon changes
}

func (c *stormMesh) healthyProxies(ctx context.Context, t *testing.T, running *sync.WaitGroup, n int) (proxies []*healthyProxy) {
	t.Helper()
	for i := range n {
		s := &healthyProxy{there: make(chan struct{}), moved: make(chan struct{}, 1)}
		proxies = append(proxies, s)
		o := proxy.Options{
			Address: c.address, Node: stormNode(i), Incremental: i%2 == 0, Expect: proxy.Expected{Endpoints: stormServices + 1},
			Heard: s.hear, Served: func(time.Time) { close(s.there) },
		}
		running.Go(func() {
			if err := proxy.Run(ctx, o); err != nil {
				t.Error(err)
			}
		})
	}
	return proxies
}

// stormNode is one of ten different proxies.
func stormNode(i int) *corev3.Node {
	return &corev3.Node{Id: fmt.Sprintf("sidecar~172.16.%d.%d~vm-%d.ns-%d~ns-%d.svc.cluster.local", i/250, i%250, i, i%10, i%10)}
}

func (s *healthyProxy) hear(r proxy.Response) {
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

// wait waits until the proxy has seen a number of the beacon.
func (s *healthyProxy) wait(t *testing.T, number int64) {
	t.Helper()
	for timeout := time.After(patience); s.seen.Load() < number; {
		select {
		case <-s.moved:
		case <-timeout:
			t.Fatalf("a healthy proxy is at change %d of the beacon and never gets to %d", s.seen.Load(), number)
		}
	}
}

// stuckProxies never acknowledge anything, and every other one does not even read. Each has its own
// connection.
func (c *stormMesh) stuckProxies(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for i := range n {
		conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		require.NoError(t, err)
		for _, typeURL := range []string{push.ClusterType, push.EndpointType, push.ListenerType} {
			require.NoError(t, s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: stormNode(i), TypeUrl: typeURL}))
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

// heap is what is in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHealthyProxiesStayCurrentInAStorm makes thousands of changes a second, while half of the
// proxies never acknowledge, or never read. The others stay close to the newest change and reach it
// in the end, and the unread responses do not pile up anywhere.
func TestHealthyProxiesStayCurrentInAStorm(t *testing.T) {
	duration, crowd := stormFor(t)
	c := newStormMesh(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { c.pushAll(ctx) })
	c.stuckProxies(ctx, t, crowd/2)
	proxies := c.healthyProxies(ctx, t, &running, crowd/2)
	for _, s := range proxies {
		<-s.there
	}
	c.change(beacon(c.number.Add(1)))
	c.storm(duration / 2) // a first storm, so that what any storm leaves behind is there already
	for _, s := range proxies {
		s.wait(t, c.number.Load())
	}

	before := heap()
	watched, ended := make(chan time.Duration), make(chan struct{})
	go func() { watched <- c.worstLag(proxies, ended) }()
	changes := c.storm(duration)
	close(ended)
	lag, last := <-watched, time.Now()
	for _, s := range proxies {
		s.wait(t, c.number.Load())
	}
	caughtUp, grown := time.Since(last), int64(heap())-int64(before)

	t.Logf("%d changes in %v became %d pushes; healthy proxies were %v behind at worst, and current %v after the last change; the heap grew by %d KB",
		changes, duration, c.pushes.Load(), lag, caughtUp, grown>>10)
	require.Greater(t, changes, int(duration.Seconds()*stormRate*9/10), "there was no storm")
	require.Less(t, lag, mostLag, "how far a healthy proxy was behind")
	require.Less(t, caughtUp, mostLag, "how long after the last change a healthy proxy was current")
	// Each stuck proxy holds on to the mesh that it was last sent, which may be larger or smaller.
	// A leak of a mesh for each push would be 13 MB a second.
	require.Less(t, grown, int64(16<<20+crowd*100<<10), "bytes that the storm left behind: a hundred KB a proxy, and some meshes")
}

// worstLag is the longest time that a proxy needed to see the number that was the newest at some
// moment.
func (c *stormMesh) worstLag(proxies []*healthyProxy, ended <-chan struct{}) (worst time.Duration) {
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
			for _, s := range proxies {
				behind = behind || s.seen.Load() < newest
			}
			worst = max(worst, time.Since(since))
		}
	}
}

// TestProxiesThatComeBackTogetherAreServed disconnects all proxies at once, several times, while
// the mesh changes. All are served again, and nothing of the old streams stays.
func TestProxiesThatComeBackTogetherAreServed(t *testing.T) {
	_, crowd := stormFor(t)
	c := newStormMesh(t)
	var left uint64
	for round := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.pushAll(ctx) })
		start := time.Now()
		proxies := c.healthyProxies(ctx, t, &running, crowd)
		c.change(beacon(c.number.Add(1)))
		for _, s := range proxies {
			<-s.there
			s.wait(t, c.number.Load())
		}
		t.Logf("%d proxies were served and current after %v", crowd, time.Since(start))
		cancel()
		running.Wait()
		c.waitUntilAllLeft(t)
		if now := heap(); round == 0 {
			left = now
		} else {
			require.Less(t, now, left+(8<<20), "bytes that are in use when all have left: more each time they come")
		}
	}
}

// waitUntilAllLeft waits until the engine has noticed that all proxies have left.
func (c *stormMesh) waitUntilAllLeft(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(c.Members()) == 0 }, patience, time.Millisecond)
}
