package main

import (
	"fmt"

	"github.com/pgmesh/pgmesh/bench/world"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// change is something written at once, and the signs by which a proxy recognizes it.
type change struct {
	scenario  string
	resources []world.Resource
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

func changeOfRoute(w *world.World, number int) change {
	mark := fmt.Sprintf("route-%06d", number)
	return change{"route", []world.Resource{w.Route(w.Turn(number), mark)}, []sign{once(mark, proxy.Routes, proxy.VirtualHosts)}}
}

func changeOfEndpoint(w *world.World, number int) change {
	mark, s := markAddress(18, number), w.Turn(number)
	changed := w.Service(s, mark)
	if w.Entries {
		changed = w.Workload(s, "more", mark)
	}
	return change{"endpoint", []world.Resource{changed}, []sign{once(mark, proxy.Endpoints)}}
}

// newService adds a service that all proxies see.
func newService(w *world.World, number int) change {
	name, namespace := fmt.Sprintf("new-%06d", number), w.Namespace(0)
	host := world.HostOf(name, namespace)
	spec := world.ServiceSpec(host)
	spec["endpoints"] = []any{world.Object{"address": markAddress(18, number)}}
	resources := []world.Resource{{Kind: "ServiceEntry", Namespace: namespace, Name: name, Spec: spec}}
	if w.Routes {
		resources = append(resources, world.Resource{Kind: "VirtualService", Namespace: namespace, Name: name, Spec: world.RouteSpec(host, host, name)})
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
func manyRows(w *world.World, p world.Who, rows, number int) change {
	mark, at := fmt.Sprintf("bulk-%06d", number), markAddress(19, number)
	touched := min(w.Services, rows/2)
	var all []world.Resource
	for s := range touched {
		more := w.Service(s, at)
		if w.Entries {
			more = w.Workload(s, "more", at)
		}
		all = append(all, w.Route(s, mark), more)
	}
	for i := len(all); i < rows; i++ {
		spec := world.ServiceSpec(world.HostOf(fmt.Sprintf("foreign-%d", i), "elsewhere"))
		spec["exportTo"], spec["endpoints"] = []any{"."}, []any{world.Object{"address": at}}
		all = append(all, world.Resource{Kind: "ServiceEntry", Namespace: "elsewhere", Name: fmt.Sprintf("foreign-%d", i), Spec: spec})
	}
	due := w.VisibleBelow(touched)
	seen := func(proxy int) int { return due[p.Namespace(proxy)] }
	return change{"bulk", all, []sign{
		{[]byte(mark), []proxy.Type{proxy.Routes, proxy.VirtualHosts}, seen}, {[]byte(at), []proxy.Type{proxy.Endpoints}, seen},
	}}
}
