package istio

import (
	"encoding/json"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// subset is a backend for a subset. The Gateway API has none, so it becomes a service of its own: a
// ServiceEntry of those workloads that the subset has, and a DestinationRule with its policy.
func (v *virtualService) subset(host, name string, port int, at report.Place) (gateway.Backend, bool) {
	key := host + " " + name
	if known, is := v.subsets[key]; is {
		known.Port = port
		return known, true
	}
	entry, rule, subset := v.entryOf(host), v.ruleOf(host), (*networking.Subset)(nil)
	for _, s := range specIf[*networking.DestinationRule](rule).GetSubsets() {
		if s.GetName() == name {
			subset = s
		}
	}
	if entry == nil || subset == nil {
		missing := "its ServiceEntry"
		if entry != nil {
			missing = "its DestinationRule"
		}
		v.Lose(at, fmt.Sprintf("a route has no subsets, and the service of the subset %s of %s cannot be written without %s%s", name, host, missing, refused),
			"convert the ServiceEntry and the DestinationRule of the host with it, or write a service for each subset")
		return gateway.Backend{}, false
	}
	own := result.Name(entry.Resource.Name + "-" + name)
	ownHost := result.Name(name) + "." + host
	spec := ofSubset(specOf[*networking.ServiceEntry](entry), ownHost, subset.GetLabels())
	v.Add("ServiceEntry", entry.Resource.Namespace, own, tree(spec), at)
	policy := proto.CloneOf(specOf[*networking.DestinationRule](rule).GetTrafficPolicy())
	if policy == nil {
		policy = &networking.TrafficPolicy{}
	}
	over(policy, subset.GetTrafficPolicy())
	if !proto.Equal(policy, &networking.TrafficPolicy{}) {
		v.Add("DestinationRule", rule.Resource.Namespace, own, tree(&networking.DestinationRule{Host: ownHost, TrafficPolicy: policy}), at)
	}
	v.Note(at, fmt.Sprintf("a route has no subsets: the subset %s of %s becomes the service %s", name, host, ownHost), "what else is said of the host, such as AuthorizationPolicies of its workloads, stays as it is")
	v.subsets[key] = gateway.Hostname(ownHost, port)
	return v.subsets[key], true
}

func specIf[T any](d *kinds.Document) (none T) {
	if d == nil {
		return none
	}
	return specOf[T](d)
}

// ruleOf is the DestinationRule of a host; nil if there is none among the documents.
func (c *conversion) ruleOf(host string) *kinds.Document {
	for _, d := range c.rules {
		if fullHost(specOf[*networking.DestinationRule](d).GetHost(), d.Resource.Namespace) == host {
			return d
		}
	}
	return nil
}

// ofSubset is a ServiceEntry of those workloads that have some labels.
func ofSubset(in *networking.ServiceEntry, host string, labels map[string]string) *networking.ServiceEntry {
	out := proto.CloneOf(in)
	out.Hosts, out.Addresses, out.Endpoints = []string{host}, nil, nil
	for _, e := range in.GetEndpoints() {
		if kinds.LabelsWithin(labels, e.GetLabels()) {
			out.Endpoints = append(out.Endpoints, e)
		}
	}
	if in.GetWorkloadSelector() != nil {
		selected := maps.Clone(in.GetWorkloadSelector().GetLabels())
		maps.Copy(selected, labels)
		out.WorkloadSelector = &networking.WorkloadSelector{Labels: selected}
	}
	return out
}

// over sets what a policy of a subset says, field by field.
func over(policy, subset *networking.TrafficPolicy) {
	if subset == nil {
		return
	}
	policy.LoadBalancer = orThat(subset.GetLoadBalancer(), policy.GetLoadBalancer())
	policy.ConnectionPool = orThat(subset.GetConnectionPool(), policy.GetConnectionPool())
	policy.OutlierDetection = orThat(subset.GetOutlierDetection(), policy.GetOutlierDetection())
	policy.Tls = orThat(subset.GetTls(), policy.GetTls())
	policy.Tunnel = orThat(subset.GetTunnel(), policy.GetTunnel())
	policy.ProxyProtocol = orThat(subset.GetProxyProtocol(), policy.GetProxyProtocol())
	if len(subset.GetPortLevelSettings()) > 0 {
		policy.PortLevelSettings = subset.GetPortLevelSettings()
	}
}

func orThat[M any](first, second *M) *M {
	if first != nil {
		return first
	}
	return second
}

// tree is a message as it is written.
func tree(m proto.Message) json.RawMessage {
	text, err := (&kinds.Resource{Spec: kinds.SpecOf(m)}).SpecJSON()
	if err != nil {
		return json.RawMessage("{}") // it came from a document, so it can be written
	}
	return text
}
