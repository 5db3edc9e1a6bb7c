package ads_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// largeMesh is a mesh of so many services, as a sidecar sees it.
func largeMesh(services int) (all sets, requests []*discoveryv3.DeltaDiscoveryRequest) {
	var cs, es, rs []*served.Resource
	var names []string
	for i := range services {
		name := fmt.Sprintf("outbound|8080||service-%04d.namespace-%02d.svc.cluster.local", i, i%20)
		cs = append(cs, res(name, "0123456789abcdef", served.Ref{TypeURL: endpoints, Name: name}))
		es = append(es, res(name, "0123456789abcdef"))
		names = append(names, name)
	}
	for i := range 20 {
		rs = append(rs, res(fmt.Sprint(8000+i), "0123456789abcdef"))
	}
	requests = []*discoveryv3.DeltaDiscoveryRequest{
		{TypeUrl: clusters}, {TypeUrl: endpoints, ResourceNamesSubscribe: names}, {TypeUrl: listeners}, {TypeUrl: routes, ResourceNamesSubscribe: []string{"8000", "8010"}},
	}
	return sets{clusters: served.NewSet(cs...), endpoints: served.NewSet(es...), listeners: set("l=1", "m=1"), routes: served.NewSet(rs...)}, requests
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what a pool still had
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// mostOfAStream is how much memory a stream may take with a thousand services. Its connection takes
// about 40 kB more.
const mostOfAStream = 25_000

func TestAStreamTakesLittleMemory(t *testing.T) { //nolint:paralleltest // all memory is weighed
	topic := &served.Topic{}
	all, requests := largeMesh(1000)
	topic.Publish(&served.Snapshot{Revision: "r1", Sets: all})
	cfg := ads.Config{Open: open(topic), Named: named}
	makeBeforeBreak(limit)(&cfg)
	server := ads.NewServer(cfg)

	gather(server, 1, requests...).disperse() // what is made once
	const streams = 200
	before := inUse()
	c := gather(server, streams, requests...)
	taken := (inUse() - before) / streams
	c.disperse()
	t.Logf("a stream takes %d bytes", taken)
	require.Less(t, taken, uint64(mostOfAStream))
}

// BenchmarkOneChangeToManyClients sends one changed resource to many clients that ask for a
// thousand by name.
func BenchmarkOneChangeToManyClients(b *testing.B) {
	topic := &served.Topic{}
	all, requests := largeMesh(1000)
	topic.Publish(&served.Snapshot{Revision: "r0", Sets: all})
	cfg := ads.Config{Open: open(topic), Named: named}
	makeBeforeBreak(limit)(&cfg)
	const streams = 500
	c := gather(ads.NewServer(cfg), streams, requests...)
	defer c.disperse()
	name := requests[1].GetResourceNamesSubscribe()[500]
	b.ReportAllocs()
	b.ResetTimer()
	began := spent(b)
	for i := range b.N {
		next := sets{clusters: all[clusters], listeners: all[listeners], routes: all[routes]}
		next[endpoints] = all[endpoints].With([]*served.Resource{res(name, fmt.Sprint(i))}, nil)
		all = next
		c.received.Add(streams)
		topic.Publish(&served.Snapshot{Revision: fmt.Sprint("r", i+1), Sets: all})
		c.received.Wait()
	}
	b.ReportMetric(float64((spent(b)-began).Nanoseconds())/float64(b.N)/streams, "cpu-ns/client")
}

// spent returns the processor time of this process, to which other processes do not add.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
