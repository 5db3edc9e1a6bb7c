package istio

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// backends converts the destinations of a rule, and reports whether all of them can be said.
func (v *virtualService) backends(a *gateway.Action, in []*networking.HTTPRouteDestination, at report.Place) bool {
	all := true
	for i, to := range in {
		at := at.In("route[%d]", i)
		b, ok := v.backend(to.GetDestination(), at)
		if !ok {
			all = false
			continue
		}
		if len(in) > 1 {
			weight := int(to.GetWeight())
			b.Weight = &weight
			b.Filters = v.modifiers(to.GetHeaders(), at.In("headers"), nil)
		} else {
			b.Filters = v.modifiers(to.GetHeaders(), at.In("headers"), func(host string) { setHost(a, host) })
			takeOver(a, &b)
		}
		a.Backends = append(a.Backends, b)
	}
	return all
}

// takeOver has the changes of headers of the only backend as those of the rule, if it has none.
func takeOver(a *gateway.Action, b *gateway.Backend) {
	for _, f := range a.Filters {
		if f.RequestHeaders != nil || f.ResponseHeaders != nil {
			return
		}
	}
	a.Filters, b.Filters = append(a.Filters, b.Filters...), nil
}

// backend converts a destination, and reports whether it can be said.
func (v *virtualService) backend(to *networking.Destination, at report.Place) (gateway.Backend, bool) {
	host, port := fullHost(to.GetHost(), v.namespace), int(to.GetPort().GetNumber())
	if to.GetSubset() != "" {
		return v.subset(host, to.GetSubset(), port, at.In("destination.subset"))
	}
	name, namespace, ok := service(host)
	if !ok || port == 0 {
		return gateway.Hostname(host, port), true // without a port it is the only one of the service
	}
	b := gateway.Backend{Name: name, Port: port}
	if namespace != v.namespace {
		b.Namespace = namespace
	}
	return b, true
}

// connections converts the rules for connections.
func (v *virtualService) connections() {
	for i, r := range v.spec.GetTls() {
		at := v.at.In("spec.tls[%d]", i)
		backends, ok := v.shared(r.GetRoute(), at)
		if !ok {
			continue
		}
		for j, m := range r.GetMatch() {
			at := at.In("match[%d]", j)
			if len(m.GetSourceLabels())+len(m.GetDestinationSubnets()) > 0 || m.GetSourceNamespace() != "" {
				v.Lose(at, "routes of the Gateway API have no such match of clients or addresses: it is left out", "")
				continue
			}
			v.connect("TLSRoute", i, m.GetSniHosts(), m.GetGateways(), m.GetPort(), backends, at)
		}
	}
	for i, r := range v.spec.GetTcp() {
		at := v.at.In("spec.tcp[%d]", i)
		backends, ok := v.shared(r.GetRoute(), at)
		if !ok {
			continue
		}
		if len(r.GetMatch()) == 0 {
			v.connect("TCPRoute", i, nil, nil, 0, backends, at)
		}
		for j, m := range r.GetMatch() {
			at := at.In("match[%d]", j)
			if len(m.GetSourceLabels())+len(m.GetDestinationSubnets()) > 0 || m.GetSourceNamespace() != "" || m.GetSourceSubnet() != "" {
				v.Lose(at, "routes of the Gateway API have no such match of clients or addresses: it is left out", "")
				continue
			}
			v.connect("TCPRoute", i, nil, m.GetGateways(), m.GetPort(), backends, at)
		}
	}
}

// shared converts the destinations of connections, and reports whether all of them can be said.
func (v *virtualService) shared(in []*networking.RouteDestination, at report.Place) (out []gateway.Backend, all bool) {
	all = len(in) > 0
	for i, to := range in {
		b, ok := v.backend(to.GetDestination(), at.In("route[%d]", i))
		if !ok {
			all = false
			continue
		}
		if len(in) > 1 {
			weight := int(to.GetWeight())
			b.Weight = &weight
		}
		out = append(out, b)
	}
	return out, all
}

// connect writes a route of connections for a match.
func (v *virtualService) connect(kind string, index int, names, only []string, port uint32, backends []gateway.Backend, at report.Place) {
	m := matched{}
	for _, name := range only {
		m.gateways = append(m.gateways, fullGateway(name, v.namespace))
	}
	spec := gateway.Connections{Hostnames: names, Rules: []gateway.ConnectionRule{{Backends: backends}}}
	for _, name := range v.gatewayNames() {
		switch t := (target{name, port}); {
		case !m.isFor(t):
		case name == mesh:
			spec.Parents = append(spec.Parents, v.services(port)...)
		default:
			spec.Parents = append(spec.Parents, v.parents(t)...)
		}
	}
	if len(spec.Parents) > 0 {
		v.AddConnections(kind, v.namespace, fmt.Sprintf("%s-%s-%d", v.name, map[string]string{"TLSRoute": "tls", "TCPRoute": "tcp"}[kind], index+1), spec, at)
	}
}
