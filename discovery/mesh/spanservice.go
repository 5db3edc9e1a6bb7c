package mesh

import (
	"cmp"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// SpanService is the name of the service that a proxy's spans are of, as its traces' provider wants
// it; "" for a provider that is not told.
func (p *Proxy) SpanService(of Provider) string {
	switch spec := of.Spec.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		return cmp.Or(p.node.GetCluster(), p.measuredAs().Service, "unknown")
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		if spec.Opentelemetry.GetServiceAttributeEnrichment() == meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS {
			return p.conventionalService()
		}
		return p.node.GetCluster()
	default:
		return ""
	}
}

// conventionalService is what OpenTelemetry's conventions have service.name be, in their order:
// https://opentelemetry.io/docs/specs/semconv/non-normative/k8s-attributes/#service-attributes
func (p *Proxy) conventionalService() string {
	fields := p.node.GetMetadata().GetFields()
	name, _, _ := strings.Cut(p.ID, ".")
	return cmp.Or(
		fields["ANNOTATIONS"].GetStructValue().GetFields()["resource.opentelemetry.io/service.name"].GetStringValue(),
		p.Labels["app.kubernetes.io/instance"],
		p.Labels["app.kubernetes.io/name"],
		fields["WORKLOAD_NAME"].GetStringValue(),
		name,
		"unknown_service",
	)
}

// spanServices encodes what spans of the proxy say that they are of. Without a provider they are
// told of by labels that few have, and workloads of several services share a class.
func (m *Mesh) spanServices(p *Proxy) string {
	t := m.Telemetry(p)
	if t == nil {
		return ""
	}
	var out strings.Builder
	for _, told := range t.told {
		if told.Trace != nil && !told.Trace.Disabled {
			of := p.measuredAs()
			out.WriteString(" " + p.SpanService(told.Trace.Provider) + " " + of.Service + " " + of.Revision)
		}
	}
	return out.String()
}
