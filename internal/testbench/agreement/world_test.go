package agreement

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

var (
	namespaces = []string{"shop", "other", "istio-system"}
	services   = []string{"a.shop.svc.cluster.local", "b.other.svc.cluster.local", "C.example.com", "*.example.com", "*.example.org"}
	hosts      = []string{
		"a", "A", "b", "a.shop.svc.cluster.local", "b.other.svc.cluster.local", "c.example.com", "C.Example.com", "x.example.com", "*.example.com", "*.example.org",
		"a.shop", "gone.example.net",
	}
	gateways = []string{"edge", "api", "shop/edge", "other/edge", "istio-system/api", "edge.shop", "edge.other.svc.cluster.local", "api.istio-system.svc.cluster.local", "gone", "Edge"}
)

// world is a random mesh in the making.
type world struct {
	*rand.Rand

	documents []string
}

func (w *world) one(of []string) string { return of[w.IntN(len(of))] }

func (w *world) in(n int) bool { return w.IntN(n) == 0 }

func (w *world) put(kind, namespace, name string, spec ...string) {
	version := "networking.istio.io/v1"
	parts := spec[:0]
	for _, s := range spec {
		if s != "" {
			parts = append(parts, s)
		}
	}
	w.documents = append(w.documents, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}", version, kind, name, namespace, strings.Join(parts, ", ")))
}

func (w *world) exportTo() string {
	return w.one([]string{"", "", "exportTo: ['*']", "exportTo: [.]", "exportTo: [other]", "exportTo: [shop]"})
}

func (w *world) fill() {
	for i, host := range services {
		if !w.in(4) {
			w.put("ServiceEntry", w.one(namespaces), fmt.Sprint("s", i), fmt.Sprintf("hosts: ['%s']", host), "ports: [{number: 80, name: http, protocol: HTTP}]", w.exportTo())
		}
	}
	for i := range 3 {
		subsets := w.one([]string{"{name: v1}", "{name: v1}, {name: v2}"})
		w.put("DestinationRule", w.one(namespaces), fmt.Sprint("d", i), fmt.Sprintf("host: '%s'", w.one(hosts)), "subsets: ["+subsets+"]", w.exportTo())
	}
	for _, namespace := range namespaces {
		for _, name := range []string{"edge", "api"} {
			if w.in(2) {
				w.put("Gateway", namespace, name, "selector: {app: gateway}", "servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]")
			}
		}
	}
	for i := range 3 {
		w.put("VirtualService", w.one(namespaces), fmt.Sprint("delegate", i), "http: [{route: [{destination: {host: gone.example.net}}]}]", w.exportTo())
	}
	for i := range 6 {
		w.rule(i)
	}
}

func (w *world) rule(i int) {
	var routes []string
	for n := range 1 + w.IntN(3) {
		switch {
		case w.in(4):
			routes = append(routes, fmt.Sprintf("{name: route%d, delegate: {name: delegate%d%s}}", n, w.IntN(4), w.one([]string{"", ", namespace: shop", ", namespace: other"})))
		case w.in(2):
			routes = append(routes, fmt.Sprintf("{name: route%d, route: [{destination: {host: '%s', subset: %s}}]}", n, w.one(hosts), w.one([]string{"v1", "v2"})))
		default:
			routes = append(routes, fmt.Sprintf("{name: route%d, route: [{destination: {host: '%s'}}]}", n, w.one(hosts)))
		}
	}
	w.put("VirtualService", w.one(namespaces), fmt.Sprint("rule", i), fmt.Sprintf("hosts: [host%d.example.edu]", i), fmt.Sprintf("gateways: [mesh, %s]", w.one(gateways)),
		"http: ["+strings.Join(routes, ", ")+"]", w.exportTo())
}

// completed is a host as a rule in a namespace means it.
func completed(host, namespace string) string {
	if !strings.Contains(host, ".") {
		host += "." + namespace + ".svc.cluster.local"
	}
	return strings.ToLower(host)
}
