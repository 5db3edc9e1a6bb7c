package telemetry

import (
	"cmp"
	"maps"
	"slices"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/internal/substitution"
)

// defaultSampling is the percentage of requests that are traced by default, as by Istio.
const defaultSampling = 1

// Tracing says which requests are traced in a role, and with what tags. Without a provider of a
// Telemetry, or of the defaults, the proxy's bootstrap says where to; without that nothing is
// traced. It is nil if nothing is.
func Tracing(v view.View, role mesh.Role) *hcmv3.HttpConnectionManager_Tracing {
	trace := v.Mesh.Telemetry(v.Proxy).As(role).Trace
	settings := v.ProxyConfig().GetTracing()
	switch {
	case trace == nil && v.Config.GetEnableTracing():
		istioTags := settings.GetEnableIstioTags() == nil || settings.GetEnableIstioTags().GetValue()
		return sampled(sampling(settings), &hcmv3.HttpConnectionManager_Tracing{
			CustomTags:       tags(v, istioTags, v.Proxy.CanonicalName(), v.Proxy.CanonicalRevision(), mapped(settings.GetCustomTags(), settingTag)),
			MaxPathTagLength: message.Positive(settings.GetMaxPathTagLength()),
		})
	case trace == nil || trace.Disabled:
		return nil
	}
	return provided(v, trace, settings)
}

// provided sends spans to the provider of a Telemetry, or of the defaults.
func provided(v view.View, trace *mesh.Trace, settings *meshconfig.Tracing) *hcmv3.HttpConnectionManager_Tracing {
	to := tracer(v, trace.Provider)
	if to == nil {
		return nil
	}
	percentage := sampling(settings)
	if trace.Sampling != nil {
		percentage = *trace.Sampling
	}
	if trace.Provider.Spec.GetOpentelemetry().GetSampling() != nil {
		percentage = 100 // the sampler chooses
	}
	own := mapped(trace.Tags, telemetryTag)
	if len(trace.Tags) == 0 {
		own = mapped(settings.GetCustomTags(), settingTag)
	}
	workload := v.Mesh.MeasuredAs(v.Proxy)
	out := &hcmv3.HttpConnectionManager_Tracing{
		Provider:             to,
		CustomTags:           tags(v, !trace.WithoutWorkload, cmp.Or(workload.Service, "unknown"), workload.Revision, own),
		MaxPathTagLength:     message.Positive(cmp.Or(longestTag(trace.Provider), settings.GetMaxPathTagLength())),
		NoContextPropagation: trace.WithoutPropagation,
	}
	if !v.Sidecar() || trace.Provider.Spec.GetSkywalking() != nil {
		out.SpawnUpstreamSpan = message.Yes
	}
	return sampled(percentage, out)
}

// longestTag is how much of a path a provider wants in spans; 0 if it does not say.
func longestTag(p mesh.Provider) uint32 {
	return cmp.Or(p.Spec.GetZipkin().GetMaxTagLength(), p.Spec.GetDatadog().GetMaxTagLength(), p.Spec.GetOpentelemetry().GetMaxTagLength())
}

func sampled(percentage float64, t *hcmv3.HttpConnectionManager_Tracing) *hcmv3.HttpConnectionManager_Tracing {
	t.ClientSampling, t.OverallSampling = &typev3.Percent{Value: 100}, &typev3.Percent{Value: 100}
	t.RandomSampling = &typev3.Percent{Value: percentage}
	return t
}

func sampling(settings *meshconfig.Tracing) float64 {
	switch s := settings.GetSampling(); {
	case s == 0, s > 100:
		return defaultSampling
	default:
		return s
	}
}

// tags are sorted by name.
func tags(v view.View, istioTags bool, service, revision string, own []*tracingv3.CustomTag) []*tracingv3.CustomTag {
	var out []*tracingv3.CustomTag
	if istioTags {
		out = append(workloadTags(v, service, revision), dryRunTags...)
	}
	out = append(out, own...)
	slices.SortStableFunc(out, func(a, b *tracingv3.CustomTag) int { return cmp.Compare(a.GetTag(), b.GetTag()) })
	return out
}

// mapped makes a tag of each setting, without those that say nothing.
func mapped[T any](settings map[string]T, tag func(string, T) *tracingv3.CustomTag) (out []*tracingv3.CustomTag) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if made := tag(name, settings[name]); made != nil {
			out = append(out, made)
		}
	}
	return out
}

// workloadTags tell which workload a span is of.
func workloadTags(v view.View, service, revision string) []*tracingv3.CustomTag {
	return []*tracingv3.CustomTag{
		literalTag("istio.canonical_revision", revision),
		literalTag("istio.canonical_service", service),
		literalTag("istio.mesh_id", cmp.Or(v.Proxy.MeshID, "unknown")),
		literalTag("istio.namespace", cmp.Or(v.Proxy.Namespace, "default")),
		literalTag("istio.cluster_id", cmp.Or(v.Proxy.Cluster, "unknown")),
	}
}

// dryRunTags tell what policies would have done that are only tried. They are empty as long as none
// is.
var dryRunTags = []*tracingv3.CustomTag{
	dryRunTag("istio.authorization.dry_run.allow_policy.name", "istio_dry_run_allow_shadow_effective_policy_id"),
	dryRunTag("istio.authorization.dry_run.allow_policy.result", "istio_dry_run_allow_shadow_engine_result"),
	dryRunTag("istio.authorization.dry_run.deny_policy.name", "istio_dry_run_deny_shadow_effective_policy_id"),
	dryRunTag("istio.authorization.dry_run.deny_policy.result", "istio_dry_run_deny_shadow_engine_result"),
}

func dryRunTag(name, key string) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Metadata_{Metadata: &tracingv3.CustomTag_Metadata{
		Kind: &metadatav3.MetadataKind{Kind: &metadatav3.MetadataKind_Request_{Request: &metadatav3.MetadataKind_Request{}}},
		MetadataKey: &metadatav3.MetadataKey{
			Key: "envoy.filters.http.rbac",
			Path: []*metadatav3.MetadataKey_PathSegment{{
				Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: key},
			}},
		},
	}}}
}

func literalTag(name, value string) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Literal_{Literal: &tracingv3.CustomTag_Literal{Value: value}}}
}

// settingTag is a tag of a proxy's configuration. It is nil for one that says nothing.
func settingTag(name string, in *meshconfig.Tracing_CustomTag) *tracingv3.CustomTag {
	switch t := in.GetType().(type) {
	case *meshconfig.Tracing_CustomTag_Literal:
		return literalTag(name, t.Literal.GetValue())
	case *meshconfig.Tracing_CustomTag_Environment:
		return environmentTag(name, t.Environment)
	case *meshconfig.Tracing_CustomTag_Header:
		return headerTag(name, t.Header)
	default:
		return nil
	}
}

// telemetryTag is a tag of a Telemetry. It is nil for one that says nothing.
func telemetryTag(name string, in *telemetry.Tracing_CustomTag) *tracingv3.CustomTag {
	switch t := in.GetType().(type) {
	case *telemetry.Tracing_CustomTag_Literal:
		return literalTag(name, t.Literal.GetValue())
	case *telemetry.Tracing_CustomTag_Environment:
		return environmentTag(name, t.Environment)
	case *telemetry.Tracing_CustomTag_Header:
		return headerTag(name, t.Header)
	case *telemetry.Tracing_CustomTag_Formatter:
		if substitution.Wrong(t.Formatter.GetValue()) != "" {
			return nil // Envoy would refuse the listener
		}
		return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Value{Value: t.Formatter.GetValue()}}
	default:
		return nil
	}
}

// looked is what a tag looks up by a name, in either API.
type looked interface {
	GetName() string
	GetDefaultValue() string
}

func environmentTag(name string, in looked) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Environment_{Environment: &tracingv3.CustomTag_Environment{
		Name: in.GetName(), DefaultValue: in.GetDefaultValue(),
	}}}
}

func headerTag(name string, in looked) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_RequestHeader{RequestHeader: &tracingv3.CustomTag_Header{
		Name: in.GetName(), DefaultValue: in.GetDefaultValue(),
	}}}
}

// ReadsRequestID reports whether the id of a request says whether the request is traced.
func ReadsRequestID(v view.View, role mesh.Role) bool {
	trace := v.Mesh.Telemetry(v.Proxy).As(role).Trace
	return trace == nil || !trace.WithoutRequestID
}
