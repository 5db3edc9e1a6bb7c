package mesh

import (
	"maps"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// The labels that say where a thing is.
const (
	LabelRegion  = "topology.kubernetes.io/region"
	LabelZone    = "topology.kubernetes.io/zone"
	LabelSubzone = "topology.istio.io/subzone"
	LabelNetwork = "topology.istio.io/network"
)

// withTopology adds a workload's location to its labels: its region/zone/subzone, which overrules
// labels of its own, and its network, which does not. It does not change the labels that it is
// given.
func withTopology(labels map[string]string, locality, network string) map[string]string {
	if locality == "" && network == "" {
		return labels
	}
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	parts := append(strings.SplitN(locality, "/", 3), "", "")
	for i, name := range []string{LabelRegion, LabelZone, LabelSubzone} {
		if parts[i] != "" {
			out[name] = parts[i]
		}
	}
	if network != "" && out[LabelNetwork] == "" {
		out[LabelNetwork] = network
	}
	return out
}

// givenLabels leaves out the labels that only say where a workload is.
func givenLabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	for _, name := range []string{LabelRegion, LabelZone, LabelSubzone, LabelNetwork} {
		delete(out, name)
	}
	return out
}

// LocalityOf is where a proxy is: what it says, else what the endpoints of its workload say.
func (m *Mesh) LocalityOf(p *Proxy) string {
	if p.Locality.GetRegion() != "" {
		return LocalityText(p.Locality)
	}
	for _, t := range m.Targets(p) {
		if t.Locality != "" {
			return t.Locality
		}
	}
	return ""
}

// parseLocality reads region/zone/subzone; later parts may be missing.
func parseLocality(text string) *corev3.Locality {
	parts := append(strings.SplitN(text, "/", 3), "", "")
	return &corev3.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
}

// LocalityText writes a locality as region/zone/subzone.
func LocalityText(l *corev3.Locality) string {
	return strings.TrimRight(l.GetRegion()+"/"+l.GetZone()+"/"+l.GetSubZone(), "/")
}

// LabelsOf are the labels of a proxy, with those of its location.
func (m *Mesh) LabelsOf(p *Proxy) map[string]string {
	return withTopology(p.Labels, m.LocalityOf(p), m.NetworkOfProxy(p))
}
