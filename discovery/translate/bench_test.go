package translate_test

import (
	"fmt"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/kinds"
)

// BenchmarkTranslation measures each stage on a mesh of 1,000 services of 5 endpoints, all of them
// routed.
func BenchmarkTranslation(b *testing.B) {
	store := configstore.New()
	m := mesh.Build(store.Apply(largeMesh(1000)), nil)
	p := &mesh.Proxy{Type: mesh.Sidecar, Addresses: []string{"10.0.0.1"}, Namespace: "default"}
	for name, stage := range map[string]func(){
		"mesh":      func() { mesh.Build(store.Snapshot().FromNothing(), nil) },
		"clusters":  func() { translate.Clusters(view.Of(m, p)) },
		"endpoints": func() { translate.Endpoints(view.Of(m, p)) },
		"listeners": func() { translate.Listeners(view.Of(m, p)) },
		"routes":    func() { translate.Routes(view.Of(m, p)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				stage()
			}
		})
	}
}

func largeMesh(services int) kinds.Batch {
	entries, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	rules, _ := kinds.Lookup("networking.istio.io", "VirtualService")
	batch := kinds.Batch{Revision: 1}
	add := func(r *kinds.Resource) {
		batch.Changes = append(batch.Changes, kinds.Change{Key: r.Key(), Resource: r})
	}
	for i := range services {
		host := fmt.Sprintf("service-%d.default.svc.cluster.local", i)
		entry := &networking.ServiceEntry{
			Hosts: []string{host}, Resolution: networking.ServiceEntry_STATIC,
			Ports: []*networking.ServicePort{{Number: 8080, Name: "http", Protocol: "HTTP"}},
		}
		for e := range 5 {
			entry.Endpoints = append(entry.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("10.%d.%d.%d", i/256, i%256, e+1)})
		}
		rule := &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{{
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host}}},
		}}}
		name, created := fmt.Sprint("service-", i), time.Unix(int64(i), 0)
		add(&kinds.Resource{Kind: entries, Namespace: "default", Name: name, CreateTime: created, Spec: kinds.SpecOf(entry)})
		add(&kinds.Resource{Kind: rules, Namespace: "default", Name: name, CreateTime: created, Spec: kinds.SpecOf(rule)})
	}
	return batch
}
