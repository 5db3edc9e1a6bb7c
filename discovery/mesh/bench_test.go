package mesh_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// perNamespace is the number of services in each namespace of a measured mesh.
const perNamespace = 50

// measured is a mesh of services with 5 endpoints, a rule and a VirtualService each.
type measured struct {
	services int
	// sidecars says that every namespace has a Sidecar that shows only its own services.
	sidecars bool
	// asking is the number of namespaces with proxies.
	asking int
}

func (c measured) String() string {
	limited := "unlimited"
	if c.sidecars {
		limited = "limited"
	}
	return fmt.Sprintf("services=%d/scopes=%d-%s", c.services, c.asking, limited)
}

// BenchmarkOneChange measures what one change of one resource costs until every namespace with
// proxies has its scope.
func BenchmarkOneChange(b *testing.B) {
	for _, c := range []measured{
		{1000, false, 1},
		{1000, false, 20},
		{1000, true, 20},
		{10000, false, 1},
		{10000, false, 20},
		{10000, true, 200},
	} {
		for name, one := range changes(c.services / 2) {
			b.Run(c.String()+"/"+name, func(b *testing.B) { c.measure(b, one) })
		}
	}
}

// BenchmarkProblems measures how long it takes to list the problems after one change.
func BenchmarkProblems(b *testing.B) {
	for _, services := range []int{1000, 10000} {
		b.Run(fmt.Sprint("services=", services), func(b *testing.B) {
			store := configstore.New()
			m := mesh.Build(store.Apply(measured{services: services}.batch()), nil)
			m = mesh.Build(store.Apply(kinds.Batch{Changes: changes(services / 2)["endpoint"][:1]}), m)
			b.ReportAllocs()
			for b.Loop() {
				m.Problems()
			}
		})
	}
}

// measure switches back and forth between two states that differ by a change.
func (c measured) measure(b *testing.B, change []kinds.Change) {
	b.Helper()
	store := configstore.New()
	m := mesh.Build(store.Apply(c.batch()), nil)
	ask := func() {
		for n := range c.asking {
			m.Scope(sidecar(namespace(n), nil, "10.255.0.1"))
		}
	}
	ask()
	b.ReportAllocs()
	start := processorTime(b)
	for i := 0; b.Loop(); i++ {
		m = mesh.Build(store.Apply(kinds.Batch{Changes: change[i%2 : i%2+1]}), m)
		ask()
	}
	b.ReportMetric(float64(processorTime(b)-start)/float64(b.N), "cpu-ns/op")
}

// processorTime is what the program has used so far. On a machine that does other things too,
// elapsed time says little.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func namespace(i int) string { return fmt.Sprint("namespace-", i) }

// changes has, for each kind, two changes that undo each other. Those of kinds that every service
// has are for the i-th service.
func changes(i int) map[string][]kinds.Change {
	more := entryOf(i)
	spec := proto.CloneOf(more.Spec.Message().(*networking.ServiceEntry))
	spec.Endpoints[0].Address = "10.200.0.1"
	more.Spec = kinds.SpecOf(spec)
	added := entryOf(1 << 20)
	return map[string][]kinds.Change{
		"endpoint":       {put(more), put(entryOf(i))},
		"virtualservice": {put(routesOf(i, "v2")), put(routesOf(i, "v1"))},
		"rule":           {put(ruleOf(i, networking.LoadBalancerSettings_RANDOM)), put(ruleOf(i, networking.LoadBalancerSettings_ROUND_ROBIN))},
		"service":        {put(added), {Key: added.Key()}},
	}
}

func put(r *kinds.Resource) kinds.Change { return kinds.Change{Key: r.Key(), Resource: r} }

func (c measured) batch() kinds.Batch {
	batch := kinds.Batch{Revision: 1}
	for i := range c.services {
		batch.Changes = append(batch.Changes, put(entryOf(i)), put(routesOf(i, "v1")), put(ruleOf(i, networking.LoadBalancerSettings_ROUND_ROBIN)))
	}
	for n := 0; c.sidecars && n < c.services/perNamespace; n++ {
		batch.Changes = append(batch.Changes, put(measuredResource("Sidecar", n*perNamespace, &networking.Sidecar{
			Egress: []*networking.IstioEgressListener{{Hosts: []string{"./*"}}},
		})))
	}
	return batch
}

func measuredResource(kind string, i int, spec proto.Message) *kinds.Resource {
	k, _ := kinds.Lookup("networking.istio.io", kind)
	return &kinds.Resource{
		Kind: k, Namespace: namespace(i / perNamespace), Name: fmt.Sprint("service-", i), CreateTime: time.Unix(int64(i), 0), Spec: kinds.SpecOf(spec),
	}
}

func hostOf(i int) string {
	return fmt.Sprintf("service-%d.%s.svc.cluster.local", i, namespace(i/perNamespace))
}

func entryOf(i int) *kinds.Resource {
	spec := &networking.ServiceEntry{
		Hosts: []string{hostOf(i)}, Resolution: networking.ServiceEntry_STATIC,
		Ports: []*networking.ServicePort{{Number: 8080, Name: "http", Protocol: "HTTP"}},
	}
	for e := range 5 {
		spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("10.%d.%d.%d", i/256%256, i%256, e+1)})
	}
	return measuredResource("ServiceEntry", i, spec)
}

func routesOf(i int, name string) *kinds.Resource {
	return measuredResource("VirtualService", i, &networking.VirtualService{Hosts: []string{hostOf(i)}, Http: []*networking.HTTPRoute{{
		Name: name, Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: hostOf(i)}}},
	}}})
}

func ruleOf(i int, balancing networking.LoadBalancerSettings_SimpleLB) *kinds.Resource {
	return measuredResource("DestinationRule", i, &networking.DestinationRule{Host: hostOf(i), TrafficPolicy: &networking.TrafficPolicy{
		LoadBalancer: &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: balancing}},
	}})
}

// BenchmarkFromNothing measures the first mesh of a discovery that starts.
func BenchmarkFromNothing(b *testing.B) {
	for _, services := range []int{1000, 10000} {
		b.Run(fmt.Sprint("services=", services), func(b *testing.B) {
			snapshot := configstore.New().Apply(measured{services: services}.batch())
			b.ReportAllocs()
			for b.Loop() {
				mesh.Build(snapshot, nil).Scope(sidecar(namespace(0), nil))
			}
		})
	}
}
