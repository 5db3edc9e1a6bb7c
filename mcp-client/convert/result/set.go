// Package result collects the resources that a conversion writes, and checks them as any others are.
package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// Set is what a conversion has written so far.
type Set struct {
	*report.Report

	all   []written
	kept  []*kinds.Document
	names map[name]bool // of both
}

// name tells a resource from all others.
type name struct{ kind, namespace, name string }

// NewSet returns a set that tells to a report.
func NewSet(r *report.Report) *Set { return &Set{Report: r, names: map[name]bool{}} }

type written struct {
	object object
	from   report.Place
}

type object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       any      `json:"spec"`
}

// Metadata names a resource.
type Metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// The API versions of what is written.
const (
	gatewayAPI = "gateway.networking.k8s.io/v1"
	networking = "networking.istio.io/v1"
	security   = "security.istio.io/v1"
	telemetry  = "telemetry.istio.io/v1"
)

// order lists kinds as people read them: what all share, what is called, how, who listens, what leads there, who may. A
// Gateway is that of the Gateway API.
var order = []struct{ kind, version string }{
	{"MeshConfig", "core/v1alpha1"},
	{"MeshNetworks", "core/v1alpha1"},
	{"ServiceEntry", networking},
	{"WorkloadEntry", networking},
	{"DestinationRule", networking},
	{"BackendTLSPolicy", gatewayAPI},
	{"Gateway", gatewayAPI},
	{"VirtualService", networking},
	{"HTTPRoute", gatewayAPI},
	{"GRPCRoute", gatewayAPI},
	{"TLSRoute", gatewayAPI},
	{"TCPRoute", gatewayAPI},
	{"ReferenceGrant", gatewayAPI},
	{"PeerAuthentication", security},
	{"RequestAuthentication", security},
	{"AuthorizationPolicy", security},
	{"Telemetry", telemetry},
}

// rank is the place of a kind in the order.
func rank(kind string) int {
	return slices.IndexFunc(order, func(k struct{ kind, version string }) bool { return k.kind == kind })
}

// Add writes a resource. A name that is taken gets a number.
func (s *Set) Add(kind, namespace, called string, spec any, from report.Place) {
	s.AddWith(kind, Metadata{Name: called, Namespace: namespace}, spec, from)
}

// AddWith writes a resource that has labels or annotations.
func (s *Set) AddWith(kind string, m Metadata, spec any, from report.Place) {
	wanted := m.Name
	for n := 2; s.names[name{kind, m.Namespace, m.Name}]; n++ {
		m.Name = fmt.Sprintf("%s-%d", wanted, n)
	}
	s.names[name{kind, m.Namespace, m.Name}] = true
	s.all = append(s.all, written{object{order[rank(kind)].version, kind, m, spec}, from})
}

// AddOnce writes a resource, if there is none of this name yet.
func (s *Set) AddOnce(kind, namespace, called string, spec any, from report.Place) {
	if !s.names[name{kind, namespace, called}] {
		s.Add(kind, namespace, called, spec, from)
	}
}

// Keep has documents of the source be resources as they are.
func (s *Set) Keep(documents []*kinds.Document) {
	s.kept = append(s.kept, documents...)
	for _, d := range documents {
		s.names[name{d.Resource.Kind.Name, d.Resource.Namespace, d.Resource.Name}] = true
	}
}

// Documents are the resources, checked as any others are. What is not valid is told of as lost.
func (s *Set) Documents() ([]*kinds.Document, error) {
	out := slices.Clone(s.kept)
	for _, w := range s.all {
		documents, err := w.object.parse()
		if wrong, is := errors.AsType[kinds.Errors](err); is {
			s.refuse(w, wrong)
			continue
		} else if err != nil {
			return nil, err
		}
		out = append(out, documents...)
	}
	slices.SortStableFunc(out, func(a, b *kinds.Document) int { return rank(a.Resource.Kind.Name) - rank(b.Resource.Kind.Name) })
	return out, nil
}

// Wrong is what is not valid of a resource with this spec.
func Wrong(kind, namespace string, spec any) kinds.Errors {
	_, err := object{order[rank(kind)].version, kind, Metadata{Name: "any", Namespace: namespace}, spec}.parse()
	wrong, _ := errors.AsType[kinds.Errors](err)
	return wrong
}

func (o object) parse() ([]*kinds.Document, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", o.Kind, o.Metadata.Name, err)
	}
	return kinds.Parse("", text)
}

// refuse tells that a resource cannot be written.
func (s *Set) refuse(w written, wrong kinds.Errors) {
	for _, v := range wrong {
		s.Lose(w.from, fmt.Sprintf("the %s %s/%s that it would become is not valid, and is left out: %s: %s", w.object.Kind, w.object.Metadata.Namespace,
			w.object.Metadata.Name, v.Path, v.Reason), "write it by hand")
	}
}

// TellOthers tells how many documents of which kinds are not converted.
func (s *Set) TellOthers(kinds map[string]int) {
	if len(kinds) == 0 {
		return
	}
	var counted []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		counted = append(counted, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	s.Note(report.Place{}, "not converted: "+strings.Join(counted, ", "), "what is of the mesh among them needs no conversion: mcp-client import without --from takes it")
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Name makes a name of a resource, or of a part of one, from a text.
func Name(text string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(name) > 60 {
		name = strings.Trim(name[:60], "-")
	}
	if name == "" {
		return "any"
	}
	return name
}
