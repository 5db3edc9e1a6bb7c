package main

import "fmt"

// object is a part of a resource.
type object = map[string]any

const (
	namespace = "bench"
	gateway   = "edge"
	backend   = "backend"
	other     = "backend-alt" // the second backend of the route that is edited
	group     = "gateway.networking.k8s.io"
)

// backends say who they are in their answers.
var backends = []string{backend, other}

func gatewaySpec(port int) object {
	return object{"gatewayClassName": "pgmesh", "listeners": []object{{"name": "http", "port": port, "protocol": "HTTP"}}}
}

// route is an HTTPRoute to write.
type route struct {
	name string
	spec object
}

func (r route) host() string { return r.name + ".example.com" }

func named(i int) route { return route{name: fmt.Sprintf("%d-route", i)} }

// probed is a route as gateway-api-bench's test of propagation has it: one rule for its own path, and
// one that leads to a backend that is not there.
func probed(i int) route {
	r := named(i)
	r.spec = r.with(
		object{"matches": prefix(fmt.Sprintf("/%d", i)), "backendRefs": to(backend), "filters": filters("added-value")},
		object{"matches": prefix("/"), "backendRefs": to("invalid-backend"), "filters": filters("added-value")})
	return r
}

// plain is a route with one rule, whose answers bear a mark.
func plain(i int, mark string) route { return marked(named(i), backend, mark) }

// marked leads to a backend, and its answers bear a mark.
func marked(r route, leads, mark string) route {
	r.spec = r.with(object{"backendRefs": to(leads), "filters": filters(mark)})
	return r
}

func (r route) with(rules ...object) object {
	return object{"parentRefs": []object{{"name": gateway}}, "hostnames": []string{r.host()}, "rules": rules}
}

func prefix(path string) []object {
	return []object{{"path": object{"type": "PathPrefix", "value": path}}}
}

func to(name string) []object { return []object{{"name": name, "port": servicePort}} }

// header is what answers bear of a route.
const header = "added-resp-header"

func filters(mark string) []object {
	return []object{
		{"type": "RequestHeaderModifier", "requestHeaderModifier": object{"add": []object{{"name": "added-header", "value": mark}}}},
		{"type": "ResponseHeaderModifier", "responseHeaderModifier": object{"add": []object{{"name": header, "value": mark}}}},
	}
}
