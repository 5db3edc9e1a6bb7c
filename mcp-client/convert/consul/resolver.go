package consul

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// subsetsOf are the labels of the subsets of a service. One whose filter labels cannot say is left out.
func (c *Conversion) subsetsOf(s *service) map[string]map[string]string {
	out := map[string]map[string]string{}
	all := s.resolver.Named("Subsets")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		subset := all[name]
		filter, healthy := subset.Text("Filter"), subset.Yes("OnlyPassing")
		labels, why := subsetLabels(filter)
		if why != "" {
			c.Lose(subset.At, why+": the subset is left out, and requests for it are answered with 503", "give its instances a meta of their own, and filter by Service.Meta.KEY == VALUE")
			continue
		}
		if healthy {
			c.Note(subset.At.In("OnlyPassing"), "instances with a warning are asked, too", "")
		}
		out[name] = labels
	}
	return out
}

// subsetLabels are the labels that stand for a filter, or why none do.
func subsetLabels(filter string) (labels map[string]string, why string) {
	labels, said := labelsOfFilter(filter)
	if !said {
		return nil, "a subset is a set of labels here, and labels cannot say the filter " + filter
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch value := labels[key]; {
		case key == appLabel:
			return nil, fmt.Sprintf("the filter %s is about the meta %s, and the label %s has the name of the service", filter, appLabel, appLabel)
		case !kinds.ValidLabel(key, value):
			return nil, fmt.Sprintf("the filter %s is about what cannot be a label, %s: %s", filter, key, value)
		}
	}
	return labels, ""
}

// destinationRule writes how a service is asked: its subsets, its balance and its limits.
func (c *Conversion) destinationRule(s *service) {
	d := &networking.DestinationRule{Host: s.host(), TrafficPolicy: c.policy(s)}
	for _, name := range slices.Sorted(maps.Keys(s.subsets)) {
		d.Subsets = append(d.Subsets, &networking.Subset{Name: subsetName(name), Labels: s.subsets[name]})
	}
	if len(d.GetSubsets()) == 0 && d.GetTrafficPolicy() == nil {
		return
	}
	c.Add("DestinationRule", s.namespace, result.Name(s.name), d, s.resolver.At)
}

// subsetName is the name of a subset, which has to be a label of DNS here.
func subsetName(name string) string { return result.Name(name) }

func (c *Conversion) policy(s *service) *networking.TrafficPolicy {
	p := &networking.TrafficPolicy{LoadBalancer: c.balance(s.resolver.Object("LoadBalancer"))}
	if timeout, there := s.resolver.Duration("ConnectTimeout"); there && timeout > 0 {
		p.ConnectionPool = &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{ConnectTimeout: durationpb.New(timeout)}}
	}
	c.failover(s, p)
	if p.GetLoadBalancer() == nil && p.GetConnectionPool() == nil && p.GetOutlierDetection() == nil {
		return nil
	}
	return p
}

// simple are the balances that need no more than their name.
var simple = map[string]networking.LoadBalancerSettings_SimpleLB{
	"least_request": networking.LoadBalancerSettings_LEAST_REQUEST, "round_robin": networking.LoadBalancerSettings_ROUND_ROBIN, "random": networking.LoadBalancerSettings_RANDOM,
}

func (c *Conversion) balance(o *fields.Object) *networking.LoadBalancerSettings {
	if o == nil {
		return nil
	}
	policy := o.Text("Policy")
	if lb, is := simple[policy]; is {
		if count, there := o.Object("LeastRequestConfig").Whole("ChoiceCount"); there && count > 0 {
			c.Lose(o.At.In("LeastRequestConfig.ChoiceCount"), fmt.Sprintf("of two instances the one with fewer requests is asked, and not of %d", count), "")
		}
		return &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: lb}}
	}
	if policy != "ring_hash" && policy != "maglev" {
		if policy != "" {
			c.Lose(o.At.In("Policy"), "there is no balance "+policy+" here: instances are chosen as of any service", "write loadBalancer into the DestinationRule")
		}
		return nil
	}
	hash := c.hash(o)
	if hash == nil {
		return nil
	}
	if policy == "maglev" {
		hash.HashAlgorithm = &networking.LoadBalancerSettings_ConsistentHashLB_Maglev{Maglev: &networking.LoadBalancerSettings_ConsistentHashLB_MagLev{}}
	} else if size, there := o.Object("RingHashConfig").Number("MinimumRingSize"); there && size > 0 {
		hash.HashAlgorithm = &networking.LoadBalancerSettings_ConsistentHashLB_RingHash_{RingHash: &networking.LoadBalancerSettings_ConsistentHashLB_RingHash{MinimumRingSize: uint64(size)}}
	}
	return &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: hash}}
}

// hash says by what requests are told apart. The first policy counts.
func (c *Conversion) hash(o *fields.Object) *networking.LoadBalancerSettings_ConsistentHashLB {
	policies := o.Objects("HashPolicies")
	if len(policies) == 0 {
		c.Lose(o.At, "nothing says by what requests are hashed: any instance is asked", "write a DestinationRule with consistentHash")
		return nil
	}
	first, hash := policies[0], &networking.LoadBalancerSettings_ConsistentHashLB{}
	name := first.Text("FieldValue")
	first.Skip("Terminal")
	switch field := first.Text("Field"); {
	case first.Yes("SourceIP"):
		hash.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp{UseSourceIp: true}
	case field == "header":
		hash.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: name}
	case field == "query_parameter":
		hash.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName{HttpQueryParameterName: name}
	case field == "cookie":
		cookie := &networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie{Name: name, Path: first.Object("CookieConfig").Text("Path")}
		ttl, _ := first.Object("CookieConfig").Duration("TTL")
		if ttl > 0 || first.Object("CookieConfig").Yes("Session") {
			cookie.Ttl = durationpb.New(ttl)
		}
		hash.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie{HttpCookie: cookie}
	}
	if len(policies) > 1 {
		c.Lose(policies[1].At, "requests are hashed by one thing: by the first", "")
		for _, p := range policies[1:] {
			p.Skip("Field", "FieldValue", "CookieConfig", "SourceIP", "Terminal")
		}
	}
	return hash
}

// failover has requests go to other datacenters, which are regions here, when the instances of one fail.
func (c *Conversion) failover(s *service, p *networking.TrafficPolicy) {
	all := s.resolver.Named("Failover")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		to, other := f.Texts("Datacenters"), f.Text("Service")+f.Text("ServiceSubset")
		for _, target := range f.Objects("Targets") {
			if target.Text("Service") != "" || target.Text("ServiceSubset") != "" || target.Text("Peer") != "" || target.Text("Datacenter") == "" {
				other = "a target"
				target.Settle()
				continue
			}
			to = append(to, target.Text("Datacenter"))
		}
		from := s.datacenters(to)
		switch {
		case other != "" || len(to) == 0:
			c.Lose(f.At, "requests go to another datacenter when all instances fail, but to no other service, subset or peer: they are answered with 503", "write a VirtualService that leads there, when it is needed")
		case name != everything:
			c.Lose(f.At, "a subset has no failover of its own, but that of its service: it is left out", "say it of "+everything+", for all subsets")
		case len(from) == 0:
			c.Lose(f.At, fmt.Sprintf("no instance was read that is in another datacenter than %s, so it is not known for whom they stand in: any datacenter is asked when the own one fails", strings.Join(to, ", ")),
				"convert what /v1/catalog/service/"+s.name+" answers with it")
			c.ejects(p)
		case len(from) != 1 || len(to) > 1:
			c.Lose(f.At, fmt.Sprintf("there are instances in %s, and %s are to stand in for them: only who stands in for one datacenter can be said, so any is asked when the own one fails", strings.Join(from, ", "), strings.Join(to, ", ")),
				"write pairs of regions into localityLbSetting.failover of the DestinationRule")
			c.ejects(p)
		default:
			c.ejects(p)
			p.LoadBalancer = balanced(p.GetLoadBalancer())
			p.LoadBalancer.LocalityLbSetting = &networking.LocalityLoadBalancerSetting{
				Enabled: wrapperspb.Bool(true), Failover: []*networking.LocalityLoadBalancerSetting_Failover{{From: from[0], To: to[0]}},
			}
		}
	}
}

// balanced is a balance to be completed.
func balanced(lb *networking.LoadBalancerSettings) *networking.LoadBalancerSettings {
	if lb == nil {
		return &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: networking.LoadBalancerSettings_LEAST_REQUEST}}
	}
	return lb
}

// ejects has instances that fail be left out for a while: without it no other region is asked.
func (c *Conversion) ejects(p *networking.TrafficPolicy) {
	p.OutlierDetection = &networking.OutlierDetection{
		Consecutive_5XxErrors: wrapperspb.UInt32(5), Interval: durationpb.New(10 * time.Second), BaseEjectionTime: durationpb.New(30 * time.Second), MaxEjectionPercent: 100,
	}
}

// datacenters are those of the instances, but for those that are named.
func (s *service) datacenters(but []string) (out []string) {
	for _, i := range s.instances {
		if i.datacenter != "" && !slices.Contains(but, i.datacenter) && !slices.Contains(out, i.datacenter) {
			out = append(out, i.datacenter)
		}
	}
	return out
}
