package consul

import (
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
	missing           *networking.Destination // in the place of both: what stands for a target that cannot be said
	share             float64                 // of all requests, at most 1
	timeout           time.Duration
	request, response *networking.Headers_HeaderOperations
}

// longest bounds how far services may lead to others.
const longest = 20

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
		v.Http = append(v.Http, c.to(s, "", s.at, s.rest()))
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
	for _, o := range []*fields.Object{s.router, s.splitter} {
		if o == nil {
			continue
		}
		c.Lose(o.At, fmt.Sprintf("it is about requests, and the service-defaults of %s say that it speaks %s: it has no effect", s.name, s.defaults.Text("Protocol")), `say Protocol = "http" there, if it does`)
		o.Settle()
	}
	targets, why := c.resolve(s, "", 1, s.at)
	if why != nil {
		c.Lose(why.at, why.what+": connections go on to the service itself", why.instead)
		return
	}
	if s.resolver.Has("RequestTimeout") && targets[0].timeout > 0 {
		c.Note(s.resolver.At.In("RequestTimeout"), "it is about requests, and these are connections", "")
	}
	v.Tcp = []*networking.TCPRoute{{Route: []*networking.RouteDestination{{Destination: c.destination(targets[0])}}}}
}

// to makes a route to a service, or to a subset of it that the config entry at a place names. It sets no retries, because Consul
// makes none then. If the target cannot be converted, a warning says whose requests that concerns.
func (c *Conversion) to(s *service, subset string, at report.Place, whose string) *networking.HTTPRoute {
	out := &networking.HTTPRoute{Retries: &networking.HTTPRetry{}}
	var targets []target
	var why *unsaid
	if subset == "" {
		targets, why = c.split(s, 1, nil)
	} else {
		targets, why = c.resolve(s, subset, 1, at)
	}
	if why != nil {
		c.Lose(why.at, why.what+": "+whose+" are answered with 503", why.instead)
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

// rest says which requests of a service its router has no route for.
func (s *service) rest() string {
	all := "ALL requests of " + s.name
	if len(s.router.Objects("Routes")) > 0 {
		all += " that no route of its service-router is for"
	}
	return all
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
	if t.missing != nil {
		return t.missing
	}
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
		return nil, &unsaid{at: s.splitter.At, what: "its splits lead to itself", instead: "have them end at a service"}
	}
	if s.splitter == nil {
		return c.resolve(s, "", share, s.at)
	}
	var out []target
	for _, o := range s.splitter.Objects("Splits") {
		weight, _ := o.Number("Weight")
		if weight == 0 {
			o.Settle()
			continue
		}
		targets, why := c.leg(s, o, share*weight/100, append(on, s))
		if why != nil && why.standIn == nil {
			why.what = o.At.Path + " of " + s.name + ": " + why.what
			s.splitter.Settle()
			return nil, why
		}
		if why != nil {
			c.Lose(why.at, fmt.Sprintf("%s: the %v %% of this split of %s are answered with 503, those of the others are not", why.what, weight, s.name), why.instead)
			targets = []target{{missing: why.standIn, share: share * weight / 100}}
		}
		for i := range targets {
			targets[i].request = virtual.Both(operations(o.Object("RequestHeaders")), targets[i].request)
			targets[i].response = virtual.Both(targets[i].response, operations(o.Object("ResponseHeaders")))
		}
		out = append(out, targets...)
	}
	if len(out) == 0 {
		return nil, &unsaid{at: s.splitter.At, what: "it has no split with a weight", instead: "write one"}
	}
	return out, nil
}

// leg is where one split leads.
func (c *Conversion) leg(s *service, o *fields.Object, share float64, on []*service) ([]target, *unsaid) {
	subset := o.Text("ServiceSubset")
	next, why := c.other(s, o)
	switch {
	case why != nil:
		return nil, why
	case next != s && subset == "":
		return c.split(next, share, on)
	}
	return c.resolve(next, subset, share, o.At.In("ServiceSubset"))
}

// resolve finds the instances that are meant, as the resolvers of services say. What is at the place names the subset.
func (c *Conversion) resolve(s *service, subset string, share float64, at report.Place) ([]target, *unsaid) {
	for range longest {
		redirect := s.resolver.Object("Redirect")
		if redirect == nil {
			if usual := s.resolver.Text("DefaultSubset"); subset == "" && usual != "" {
				subset, at = usual, s.resolver.At.In("DefaultSubset")
			}
			return c.instances(s, subset, share, at)
		}
		next, why := c.other(s, redirect)
		if why != nil {
			return nil, why
		}
		said := redirect.Text("ServiceSubset")
		if next == s && said == "" {
			break
		}
		subset, at = said, redirect.At.In("ServiceSubset")
		if next == s {
			return c.instances(s, subset, share, at)
		}
		s = next
	}
	return nil, &unsaid{at: s.resolver.At, what: "its redirects lead to itself", instead: "have them end at a service"}
}

func (c *Conversion) instances(s *service, subset string, share float64, at report.Place) ([]target, *unsaid) {
	if _, there := s.subsets[subset]; subset != "" && !there {
		return nil, s.lacks(subset, at)
	}
	timeout, _ := s.resolver.Duration("RequestTimeout")
	return []target{{service: s, subset: subset, share: share, timeout: timeout}}, nil
}
