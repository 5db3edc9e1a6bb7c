package main

import (
	"fmt"
)

// world describes a mesh of similar services, and its proxies.
type world struct {
	Services   int  `json:"services"`
	Endpoints  int  `json:"endpoints"`
	Namespaces int  `json:"namespaces"`
	Scope      int  `json:"scope"` // services that a proxy sees, 0 for all
	Routes     bool `json:"routes"`
	Entries    bool `json:"workload_entries"` // endpoints are separate resources

	homes [][]int // the services of each namespace, without those that all namespaces see
}

const (
	commonNamespace = "common"
	// The divisor for how many of the services that a proxy sees are seen by all proxies: changes
	// of these concern every proxy, whatever the number of services.
	commonPart = 10
	port       = 8080
	markHeader = "x-mark"
)

// lay distributes the services over the namespaces.
func (w *world) lay() error {
	if w.Scope < 0 || w.Scope == 1 || w.Scope > w.Services {
		return fmt.Errorf("--scope %d: expected 0 for everything, or from 2 to %d, as many services as there are", w.Scope, w.Services)
	}
	if w.Scope > 0 {
		own := w.Scope - w.common()
		w.Namespaces = max(1, (w.Services-w.common())/own)
	}
	w.homes = make([][]int, w.Namespaces)
	for s := w.common(); s < w.Services; s++ {
		n := w.namespaceOf(s)
		w.homes[n] = append(w.homes[n], s)
	}
	return nil
}

// common is how many services all proxies see if their scope is limited: the first ones.
func (w *world) common() int {
	if w.Scope == 0 {
		return 0
	}
	return max(1, w.Scope/commonPart)
}

func (w *world) namespaceOf(service int) int { return (service - w.common()) % w.Namespaces }

func (w *world) namespace(service int) string {
	if service < w.common() {
		return commonNamespace
	}
	return namespaceName(w.namespaceOf(service))
}

func namespaceName(n int) string { return fmt.Sprintf("team-%03d", n) }

func (w *world) host(service int) string { return hostOf(serviceName(service), w.namespace(service)) }

func hostOf(name, namespace string) string { return fmt.Sprintf("%s.%s.mesh.test", name, namespace) }

func serviceName(service int) string { return fmt.Sprintf("service-%d", service) }

func address(service, endpoint int) string {
	return fmt.Sprintf("10.%d.%d.%d", service>>8, service&255, endpoint+1)
}

// visible is how many services the proxies of a namespace see.
func (w *world) visible(namespace int) int {
	if w.Scope == 0 {
		return w.Services
	}
	return w.common() + len(w.homes[namespace])
}

// seenByAll is how many services, counted from the first, every proxy sees.
func (w *world) seenByAll() int {
	if w.Scope == 0 {
		return w.Services
	}
	return w.common()
}

// resources returns the whole mesh.
func (w *world) resources() []resource {
	var all []resource
	for s := range w.Services {
		all = append(all, w.service(s, ""))
		if w.Routes {
			all = append(all, w.route(s, "none"))
		}
		if w.Entries {
			for e := range w.Endpoints {
				all = append(all, w.workload(s, fmt.Sprint(e), address(s, e)))
			}
		}
	}
	if w.Scope > 0 {
		for n := range w.Namespaces {
			all = append(all, resource{
				"Sidecar", namespaceName(n), "default",
				object{"egress": []any{object{"hosts": []any{"./*", commonNamespace + "/*"}}}},
			})
		}
	}
	return all
}

// service returns a service with its endpoints, and with one more if an address is given.
func (w *world) service(s int, more string) resource {
	spec := serviceSpec(w.host(s))
	if w.Entries {
		spec["workloadSelector"] = object{"labels": object{"app": serviceName(s)}}
		return resource{"ServiceEntry", w.namespace(s), serviceName(s), spec}
	}
	var endpoints []any
	for e := range w.Endpoints {
		endpoints = append(endpoints, endpoint(s, address(s, e)))
	}
	if more != "" {
		endpoints = append(endpoints, endpoint(s, more))
	}
	spec["endpoints"] = endpoints
	return resource{"ServiceEntry", w.namespace(s), serviceName(s), spec}
}

func serviceSpec(host string) object {
	return object{
		"hosts": []any{host}, "location": "MESH_INTERNAL", "resolution": "STATIC",
		"ports": []any{object{"number": port, "name": "http", "protocol": "HTTP"}},
	}
}

func endpoint(service int, address string) object {
	return object{"address": address, "labels": object{"app": serviceName(service)}}
}

// workload returns an endpoint that is a separate resource.
func (w *world) workload(service int, name, address string) resource {
	return resource{"WorkloadEntry", w.namespace(service), serviceName(service) + "-" + name, endpoint(service, address)}
}

// route returns a service's route, which adds a mark to every answer.
func (w *world) route(s int, mark string) resource {
	return resource{"VirtualService", w.namespace(s), serviceName(s), routeSpec(w.host(s), w.host(s), mark)}
}

func routeSpec(host, to, mark string) object {
	return object{
		"hosts": []any{host},
		"http": []any{object{
			"route":   []any{object{"destination": object{"host": to}}},
			"timeout": "3s",
			"headers": object{"response": object{"set": object{markHeader: mark}}},
		}},
	}
}
