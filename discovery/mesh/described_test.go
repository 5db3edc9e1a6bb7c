package mesh_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// shownBy are the pointers to what a scope shows.
func shownBy(s *mesh.Scope) (out []any) {
	for _, e := range s.Egress {
		for _, service := range e.Services {
			out = append(out, service)
		}
		for _, vs := range e.VirtualServices {
			out = append(out, vs)
		}
	}
	for _, service := range s.Services {
		out = append(out, service, s.InboundDestinationRule(service.Hostname), s.Policies(service.Hostname))
		for _, app := range []string{"", "a", "b"} {
			out = append(out, s.DestinationRule(&mesh.Proxy{Labels: map[string]string{"app": app}}, service.Hostname))
		}
	}
	return out
}

// scopeText describes everything that a proxy may see.
func scopeText(m *mesh.Mesh, p *mesh.Proxy) string {
	var b strings.Builder
	s := m.Scope(m.Known(p))
	for _, e := range s.Egress {
		fmt.Fprintln(&b, "listener", described(e.Services))
		for _, vs := range e.VirtualServices {
			ruleText(&b, vs)
		}
		for _, service := range e.Services {
			if owner := e.WildcardOwner(service.Hostname); owner != nil {
				fmt.Fprintln(&b, "owner", service.Hostname, owner.Resource.Key())
			}
		}
	}
	fmt.Fprintln(&b, "services", described(s.Services), s.Unknown)
	for _, service := range s.Services {
		require.Same(require.TestingT(panicking{}), service, s.Service(service.Hostname))
		for _, port := range service.Ports {
			if held := s.Policies(service.Hostname); held != nil {
				fmt.Fprintln(&b, "secured", port.Name, held.From, wire(held.TLS(port)))
			}
		}
		if held := s.Policies(service.Hostname); held.Session() != nil || held.Retries() != nil {
			fmt.Fprintf(&b, "traffic %v %s %+v\n", held.From, wire(held.Retries()), held.Session())
		}
		for _, rule := range []*mesh.DestinationRule{s.DestinationRule(p, service.Hostname), s.InboundDestinationRule(service.Hostname)} {
			if rule != nil {
				fmt.Fprintf(&b, "policy %p %v %s\n", rule.Resource, rule.From, wire(rule.Spec))
			}
		}
	}
	return b.String()
}

// ruleText describes a rule. One that routes of the Gateway API come to is made anew each time, and
// its routes stay.
func ruleText(b *strings.Builder, vs *mesh.VirtualService) {
	fmt.Fprintf(b, "rule %p %s %v %s", vs.Source(nil), vs.Resource.Key(), vs.MadeFrom(), wire(vs.Spec))
	for _, rule := range vs.Spec.GetHttp() {
		fmt.Fprintf(b, " %p", vs.Source(rule))
		if e := vs.Extras(rule); e != nil && e.Session != nil {
			fmt.Fprintf(b, " %+v", *e.Session)
		}
	}
	fmt.Fprintln(b)
}

// panicking fails a test where there is no *testing.T.
type panicking struct{}

func (panicking) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (panicking) FailNow() { panic("failed") }

func described(services []*mesh.Service) []string {
	out := make([]string, len(services))
	for i, s := range services {
		var b strings.Builder
		from := s.Entry
		if s.Pool != nil { // its entry is made anew with each mesh
			from = s.Pool.Resource
		}
		fmt.Fprintf(&b, "%p %s", from, shapeOf(s))
		for _, e := range s.Endpoints {
			fmt.Fprintf(&b, " %+v", *e)
		}
		out[i] = strings.ReplaceAll(b.String(), fmt.Sprintf("%p", s.Entry), fmt.Sprintf("%p", from))
	}
	return out
}

func shapeOf(s *mesh.Service) string {
	var b strings.Builder
	fmt.Fprint(&b, s.Hostname, s.Namespace, s.Entry.Name, s.Created, s.Addresses, s.Resolution, s.External, s.SubjectAltNames, s.Allocated, s.Entry.Labels)
	if s.Pool != nil {
		fmt.Fprint(&b, s.Pool.Picker, s.Pool.Ports)
	}
	for _, port := range s.Ports {
		fmt.Fprintf(&b, " %+v", *port)
	}
	return b.String()
}

func wire(m proto.Message) string {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(bytes)
}
