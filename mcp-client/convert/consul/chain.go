package consul

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
	"github.com/pgmesh/pgmesh/mcp-client/convert/virtual"
)

// target is where a part of the requests goes in the end. Consul finds it in steps: the router of a service names
// another one, whose splitter divides, and whose resolver says which instances are meant.
type target struct {
	service           *service
	subset            string
	share             float64 // of all requests, at most 1
	timeout           time.Duration
	request, response *networking.Headers_HeaderOperations
}

// longest bounds how far services may lead to others.
const longest = 20

// unsaid is why the targets of requests cannot be said.
type unsaid struct {
	at        report.Place
	what, why string
}

// virtualService writes where requests to a service go, if it is not simply to its instances.
func (c *Conversion) virtualService(s *service) {
	if s.router == nil && s.splitter == nil && s.resolver.Object("Redirect") == nil && !s.resolver.Has("DefaultSubset") && !s.resolver.Has("RequestTimeout") {
		return
	}
	v := &networking.VirtualService{Hosts: []string{s.host()}}
	if !c.http(s) {
		c.connections(s, v)
	} else {
		for _, r := range s.router.Objects("Routes") {
			if route := c.route(s, r); route != nil {
				v.Http = append(v.Http, route)
			}
		}
		v.Http = append(v.Http, c.to(s, "", nil))
	}
	if at := firstOf(s.router, s.splitter, s.resolver); len(v.GetHttp())+len(v.GetTcp()) > 0 {
		c.Add("VirtualService", s.namespace, result.Name(s.name), v, at.At)
	}
}

func firstOf(all ...*fields.Object) *fields.Object {
	return all[slices.IndexFunc(all, func(o *fields.Object) bool { return o != nil })]
}

// connections writes where connections go that are not read.
func (c *Conversion) connections(s *service, v *networking.VirtualService) {
	targets, why := c.resolve(s, "", 1)
	if why != nil {
		c.Lose(why.at, why.what+": connections go on to the service itself", why.why)
		return
	}
	if s.resolver.Has("RequestTimeout") && targets[0].timeout > 0 {
		c.Note(s.resolver.At.In("RequestTimeout"), "it is about requests, and these are connections", "")
	}
	v.Tcp = []*networking.TCPRoute{{Route: []*networking.RouteDestination{{Destination: c.destination(targets[0])}}}}
}

// to is a route to a service, or to a subset of it, without anything said about retries: Consul makes none then.
func (c *Conversion) to(s *service, subset string, at *report.Place) *networking.HTTPRoute {
	out := &networking.HTTPRoute{Retries: &networking.HTTPRetry{}}
	var targets []target
	var why *unsaid
	if subset == "" {
		targets, why = c.split(s, 1, nil)
	} else {
		targets, why = c.resolve(s, subset, 1)
	}
	if why != nil {
		whose := refusedOf(s, subset, at != nil)
		if at == nil {
			at = &why.at
		}
		c.Lose(*at, why.what+": "+whose, why.why)
		return virtual.Refusing(nil)
	}
	weights := weightsOf(targets)
	for i, t := range targets {
		if weights[i] == 0 {
			continue
		}
		d := &networking.HTTPRouteDestination{Destination: c.destination(t), Weight: weights[i]}
		if t.request != nil || t.response != nil {
			d.Headers = &networking.Headers{Request: t.request, Response: t.response}
		}
		if t.timeout > 0 && out.GetTimeout() == nil {
			out.Timeout = durationpb.New(t.timeout)
		}
		out.Route = append(out.Route, d)
	}
	if len(out.GetRoute()) == 1 {
		out.Route[0].Weight = 0
	}
	return out
}

// refusedOf says whose requests are refused: those of a route, or all that no route of the service is for. A splitter
// of which one split cannot be said refuses those of the others, too: nobody said who is to have its share.
func refusedOf(s *service, subset string, ofRoute bool) string {
	which := "ALL requests of " + s.name
	switch {
	case ofRoute && (s.splitter == nil || subset != ""):
		return refused
	case ofRoute:
		which = "ALL requests of the route"
	case len(s.router.Objects("Routes")) > 0:
		which += " that no route of its service-router is for"
	}
	if s.splitter != nil && subset == "" {
		which += ", also those of the other splits,"
	}
	return which + " are answered with 503"
}

// weightsOf are the shares as whole numbers, finer than percents where these are not enough.
func weightsOf(targets []target) []int32 {
	for _, whole := range []float64{100, 1000, 10000} {
		out, exact := make([]int32, len(targets)), true
		for i, t := range targets {
			w := math.Round(t.share * whole)
			exact = exact && math.Abs(w-t.share*whole) < 1e-6
			out[i] = int32(w)
		}
		if exact || whole == 10000 {
			return out
		}
	}
	return nil
}

// destination names its port where the service has several, of which each leads to all instances.
func (c *Conversion) destination(t target) *networking.Destination {
	out := &networking.Destination{Host: t.service.host()}
	if t.subset != "" {
		out.Subset = subsetName(t.subset)
	}
	if ports := c.ports(t.service); len(ports) > 1 {
		out.Port = &networking.PortSelector{Number: ports[0].GetNumber()}
	}
	return out
}

// split divides requests as the splitters of a service, and of those that it leads to, say.
func (c *Conversion) split(s *service, share float64, on []*service) ([]target, *unsaid) {
	if slices.Contains(on, s) || len(on) > longest {
		return nil, &unsaid{s.splitter.At, "its splits lead to itself", "have them end at a service"}
	}
	if s.splitter == nil {
		return c.resolve(s, "", share)
	}
	var out []target
	for _, o := range s.splitter.Objects("Splits") {
		weight, _ := o.Number("Weight")
		subset := o.Text("ServiceSubset")
		next, why := c.other(s, o)
		var targets []target
		switch {
		case why != nil:
		case weight == 0:
			continue
		case next != s && subset == "":
			targets, why = c.split(next, share*weight/100, append(on, s))
		default:
			targets, why = c.resolve(next, subset, share*weight/100)
		}
		if why != nil {
			return nil, why
		}
		for i := range targets {
			targets[i].request = virtual.Both(operations(o.Object("RequestHeaders")), targets[i].request)
			targets[i].response = virtual.Both(targets[i].response, operations(o.Object("ResponseHeaders")))
		}
		out = append(out, targets...)
	}
	if len(out) == 0 {
		return nil, &unsaid{s.splitter.At, "it has no split", "write one"}
	}
	return out, nil
}

// other is the service that an entry names, or the one that it is of.
func (c *Conversion) other(s *service, o *fields.Object) (*service, *unsaid) {
	for _, name := range []string{"Datacenter", "Peer", "SamenessGroup"} {
		if value := o.Text(name); value != "" {
			return nil, &unsaid{o.At.In("%s", name), "requests are not sent to another datacenter or mesh by name: " + value, "write a VirtualService with a destination that leads there"}
		}
	}
	if partition := o.Text("Partition"); partition != "" && partition != "default" {
		return nil, &unsaid{o.At.In("Partition"), "another partition is another mesh: " + partition, "write a ServiceEntry for what is there"}
	}
	name := cmp.Or(o.Text("Service"), s.name)
	namespace := cmp.Or(o.Text("Namespace"), s.namespace)
	next := c.services[key{namespace, name}]
	if next == nil {
		return nil, &unsaid{o.At.In("Service"), "nothing is known of the service " + name, "convert what /v1/catalog/service/" + name + " answers with it"}
	}
	return next, nil
}

// resolve finds the instances that are meant, as the resolvers of services say.
func (c *Conversion) resolve(s *service, subset string, share float64) ([]target, *unsaid) {
	for range longest {
		redirect := s.resolver.Object("Redirect")
		if redirect == nil {
			return c.instances(s, cmp.Or(subset, s.resolver.Text("DefaultSubset")), share)
		}
		next, why := c.other(s, redirect)
		if why != nil {
			return nil, why
		}
		said := redirect.Text("ServiceSubset")
		if next == s && said == "" {
			break
		}
		subset = said
		if next == s {
			return c.instances(s, subset, share)
		}
		s = next
	}
	return nil, &unsaid{s.resolver.At, "its redirects lead to itself", "have them end at a service"}
}

func (c *Conversion) instances(s *service, subset string, share float64) ([]target, *unsaid) {
	if _, there := s.subsets[subset]; subset != "" && !there {
		at := s.at
		if s.resolver != nil {
			at = s.resolver.At
		}
		return nil, &unsaid{at, fmt.Sprintf("there is no subset %s of %s that could be said", subset, s.name), "write it into the service-resolver by the meta of its instances"}
	}
	timeout, _ := s.resolver.Duration("RequestTimeout")
	return []target{{service: s, subset: subset, share: share, timeout: timeout}}, nil
}
