// Package world describes a mesh of similar services with its proxies, for benchmarks, and writes it.
package world

import (
	"fmt"
	"slices"
)

// World describes a mesh of similar services, and its proxies.
type World struct {
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

// Lay distributes the services over the namespaces.
func (w *World) Lay() error {
	if w.Scope < 0 || w.Scope == 1 || w.Scope > w.Services {
		return fmt.Errorf("--scope %d: expected 0 for everything, or from 2 to %d, as many services as there are", w.Scope, w.Services)
	}
	if w.Scope > 0 {
		own := w.Scope - w.Common()
		w.Namespaces = max(1, (w.Services-w.Common())/own)
	}
	w.homes = make([][]int, w.Namespaces)
	for s := w.Common(); s < w.Services; s++ {
		n := w.namespaceOf(s)
		w.homes[n] = append(w.homes[n], s)
	}
	return nil
}

// Common is how many services all proxies see if their scope is limited: the first ones.
func (w *World) Common() int {
	if w.Scope == 0 {
		return 0
	}
	return max(1, w.Scope/commonPart)
}

func (w *World) namespaceOf(service int) int { return (service - w.Common()) % w.Namespaces }

func (w *World) Namespace(service int) string {
	if service < w.Common() {
		return commonNamespace
	}
	return NamespaceName(w.namespaceOf(service))
}

func NamespaceName(n int) string { return fmt.Sprintf("team-%03d", n) }

func (w *World) Host(service int) string { return HostOf(ServiceName(service), w.Namespace(service)) }

func HostOf(name, namespace string) string { return fmt.Sprintf("%s.%s.mesh.test", name, namespace) }

func ServiceName(service int) string { return fmt.Sprintf("service-%d", service) }

func Address(service, endpoint int) string {
	return fmt.Sprintf("10.%d.%d.%d", service>>8, service&255, endpoint+1)
}

// Visible is how many services the proxies of a namespace see.
func (w *World) Visible(namespace int) int {
	if w.Scope == 0 {
		return w.Services
	}
	return w.Common() + len(w.homes[namespace])
}

// SeenByAll is how many services, counted from the first, every proxy sees.
func (w *World) SeenByAll() int {
	if w.Scope == 0 {
		return w.Services
	}
	return w.Common()
}

// Resources returns the whole mesh.
func (w *World) Resources() []Resource {
	var all []Resource
	for s := range w.Services {
		all = append(all, w.Service(s, ""))
		if w.Routes {
			all = append(all, w.Route(s, "none"))
		}
		if w.Entries {
			for e := range w.Endpoints {
				all = append(all, w.Workload(s, fmt.Sprint(e), Address(s, e)))
			}
		}
	}
	if w.Scope > 0 {
		for n := range w.Namespaces {
			all = append(all, Resource{
				Kind: "Sidecar", Namespace: NamespaceName(n), Name: "default",
				Spec: Object{"egress": []any{Object{"hosts": []any{"./*", commonNamespace + "/*"}}}},
			})
		}
	}
	return all
}

// Service returns a service with its endpoints, and with one more if an address is given.
func (w *World) Service(s int, more string) Resource {
	spec := ServiceSpec(w.Host(s))
	if w.Entries {
		spec["workloadSelector"] = Object{"labels": Object{"app": ServiceName(s)}}
		return Resource{"ServiceEntry", w.Namespace(s), ServiceName(s), spec}
	}
	var endpoints []any
	for e := range w.Endpoints {
		endpoints = append(endpoints, endpoint(s, Address(s, e)))
	}
	if more != "" {
		endpoints = append(endpoints, endpoint(s, more))
	}
	spec["endpoints"] = endpoints
	return Resource{"ServiceEntry", w.Namespace(s), ServiceName(s), spec}
}

func ServiceSpec(host string) Object {
	return Object{
		"hosts": []any{host}, "location": "MESH_INTERNAL", "resolution": "STATIC",
		"ports": []any{Object{"number": port, "name": "http", "protocol": "HTTP"}},
	}
}

func endpoint(service int, address string) Object {
	return Object{"address": address, "labels": Object{"app": ServiceName(service)}}
}

// Workload returns an endpoint that is a separate resource.
func (w *World) Workload(service int, name, address string) Resource {
	return Resource{"WorkloadEntry", w.Namespace(service), ServiceName(service) + "-" + name, endpoint(service, address)}
}

// Route returns a service's route, which adds a mark to every answer.
func (w *World) Route(s int, mark string) Resource {
	return Resource{"VirtualService", w.Namespace(s), ServiceName(s), RouteSpec(w.Host(s), w.Host(s), mark)}
}

func RouteSpec(host, to, mark string) Object {
	return Object{
		"hosts": []any{host},
		"http": []any{Object{
			"route":   []any{Object{"destination": Object{"host": to}}},
			"timeout": "3s",
			"headers": Object{"response": Object{"set": Object{markHeader: mark}}},
		}},
	}
}

// turns is how many services the changes of one kind rotate over.
const turns = 20

// Turn is the service of a change with this number, one that every proxy sees.
func (w *World) Turn(number int) int { return number % min(turns, w.SeenByAll()) }

// VisibleBelow returns how many of the first services the proxies of each namespace see.
func (w *World) VisibleBelow(services int) []int {
	due := make([]int, w.Namespaces)
	for n, home := range w.homes {
		if w.Scope == 0 {
			due[n] = services
			continue
		}
		below, _ := slices.BinarySearch(home, services)
		due[n] = min(services, w.Common()) + below
	}
	return due
}
