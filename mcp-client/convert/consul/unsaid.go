package consul

import (
	"cmp"
	"fmt"
	"regexp"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// unsaid is why the targets of requests cannot be converted.
type unsaid struct {
	at            report.Place
	what, instead string
	// standIn is a destination that is not there until somebody writes it: Envoy answers with 503 what goes to it. It
	// is nil if there is none of which that is sure.
	standIn *networking.Destination
}

// other is the service that an entry names, or the one that it is of.
func (c *Conversion) other(s *service, o *fields.Object) (*service, *unsaid) {
	name := cmp.Or(o.Text("Service"), s.name)
	for _, of := range elsewheres {
		value := o.Text(of.field)
		if value == "" || of.field == "Partition" && value == "default" {
			continue
		}
		host := fmt.Sprintf("%s.service.%s%s.consul", name, value, of.domain)
		return nil, &unsaid{at: o.At.In("%s", of.field), what: "no host is known of " + name + " of the " + of.called + " " + value, instead: of.instead(host), standIn: nowhere(host)}
	}
	namespace := cmp.Or(o.Text("Namespace"), s.namespace)
	next := c.services[key{namespace, name}]
	if next == nil {
		return nil, &unsaid{
			at: o.At.In("Service"), what: "nothing was read of the service " + name, instead: "convert what /v1/catalog/service/" + name + " answers with it",
			standIn: nowhere(name + ".service.consul"),
		}
	}
	return next, nil
}

// elsewheres are the fields by which entries name services beyond a datacenter, with what Consul's DNS calls these.
var elsewheres = []struct {
	field, called, domain string
	instead               func(host string) string
}{
	{"Datacenter", "datacenter", "", func(host string) string {
		return "have mcp-server follow that datacenter, which gives the mesh " + host + ": docs/consul.md"
	}},
	{"Peer", "peer", ".peer", written},
	{"SamenessGroup", "sameness group", ".sg", written},
	{"Partition", "partition", ".ap", written},
}

func written(host string) string { return "write a ServiceEntry with the host " + host }

var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// nowhere is a host that the mesh does not have; nil for what is no host.
func nowhere(host string) *networking.Destination {
	if !dnsName.MatchString(host) {
		return nil
	}
	return &networking.Destination{Host: host}
}

// lacks says why a subset of the service is not there, which something at a place names.
func (s *service) lacks(subset string, at report.Place) *unsaid {
	out, of := &unsaid{at: at}, "the subset "+subset+" of "+s.name
	switch _, declared := s.resolver.Named("Subsets")[subset]; {
	case declared:
		out.what = "the filter of " + of + " cannot be said"
		out.instead = fmt.Sprintf("filter by Service.Meta.KEY == VALUE in Subsets.%s of its service-resolver, or write the subset %s into the DestinationRule", subset, subsetName(subset))
	case s.resolver == nil:
		out.what = "no service-resolver was read, which would say what " + of + " is"
		out.instead = "convert what consul config read -kind service-resolver -name " + s.name + " answers with it"
	default:
		out.what = "the service-resolver has no subset " + subset + " of " + s.name
		out.instead = "write it there, or name another subset"
	}
	out.standIn = &networking.Destination{Host: s.host(), Subset: subsetName(subset)}
	for other := range s.subsets {
		if subsetName(other) == out.standIn.GetSubset() {
			out.what += ", and " + out.standIn.GetSubset() + " is what another subset is called here"
			out.standIn, out.instead = nil, "call one of the two otherwise"
			break
		}
	}
	return out
}
