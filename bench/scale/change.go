package main

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// change is something written at once, and the signs by which a proxy recognizes it.
type change struct {
	scenario  string
	resources []resource
	signs     []sign
}

// sign is what must arrive at a proxy: a mark, a number of times, in responses of these types.
type sign struct {
	mark  []byte
	types []proxy.Type
	due   func(proxy int) int
}

func once(mark string, types ...proxy.Type) sign {
	return sign{[]byte(mark), types, func(int) int { return 1 }}
}

// turns is how many services the changes of one kind rotate over.
const turns = 20

func (w *world) turn(number int) int { return number % min(turns, w.seenByAll()) }

func changeOfRoute(w *world, number int) change {
	mark := fmt.Sprintf("route-%06d", number)
	return change{"route", []resource{w.route(w.turn(number), mark)}, []sign{once(mark, proxy.Routes, proxy.VirtualHosts)}}
}

func changeOfEndpoint(w *world, number int) change {
	mark, s := markAddress(18, number), w.turn(number)
	changed := w.service(s, mark)
	if w.Entries {
		changed = w.workload(s, "more", mark)
	}
	return change{"endpoint", []resource{changed}, []sign{once(mark, proxy.Endpoints)}}
}

// newService adds a service that all proxies see.
func newService(w *world, number int) change {
	name, namespace := fmt.Sprintf("new-%06d", number), w.namespace(0)
	host := hostOf(name, namespace)
	spec := serviceSpec(host)
	spec["endpoints"] = []any{object{"address": markAddress(18, number)}}
	resources := []resource{{"ServiceEntry", namespace, name, spec}}
	if w.Routes {
		resources = append(resources, resource{"VirtualService", namespace, name, routeSpec(host, host, name)})
	}
	return change{"service", resources, []sign{
		once(name, proxy.Clusters), once(name, proxy.Endpoints), once(name, proxy.Routes, proxy.VirtualHosts),
	}}
}

// markAddress returns an address that is no substring of another: each number in it has three
// digits.
func markAddress(network, number int) string {
	const different = 150
	return fmt.Sprintf("198.%d.%d.%d", network, 100+number/different%different, 100+number%different)
}

// manyRows changes the routes and endpoints of services, half of the rows each. If there are not
// enough services, the remaining rows are services of another team, which no proxy sees.
func manyRows(w *world, p who, rows, number int) change {
	mark, at := fmt.Sprintf("bulk-%06d", number), markAddress(19, number)
	touched := min(w.Services, rows/2)
	var all []resource
	for s := range touched {
		more := w.service(s, at)
		if w.Entries {
			more = w.workload(s, "more", at)
		}
		all = append(all, w.route(s, mark), more)
	}
	for i := len(all); i < rows; i++ {
		spec := serviceSpec(hostOf(fmt.Sprintf("foreign-%d", i), "elsewhere"))
		spec["exportTo"], spec["endpoints"] = []any{"."}, []any{object{"address": at}}
		all = append(all, resource{"ServiceEntry", "elsewhere", fmt.Sprintf("foreign-%d", i), spec})
	}
	due := w.visibleBelow(touched)
	seen := func(proxy int) int { return due[p.namespace(proxy)] }
	return change{"bulk", all, []sign{
		{[]byte(mark), []proxy.Type{proxy.Routes, proxy.VirtualHosts}, seen}, {[]byte(at), []proxy.Type{proxy.Endpoints}, seen},
	}}
}

// visibleBelow returns how many of the first services the proxies of each namespace see.
func (w *world) visibleBelow(services int) []int {
	due := make([]int, w.Namespaces)
	for n, home := range w.homes {
		if w.Scope == 0 {
			due[n] = services
			continue
		}
		below, _ := slices.BinarySearch(home, services)
		due[n] = min(services, w.common()) + below
	}
	return due
}
