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

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// defaultSampling is the percentage of requests that are traced by default, as by Istio.
const defaultSampling = 1

// Tracing says which requests are traced, and with what tags. The proxy's bootstrap says where to;
// without that nothing is traced.
func Tracing(v view.View) *hcmv3.HttpConnectionManager_Tracing {
	if !v.Config.GetEnableTracing() {
		return nil
	}
	settings := v.ProxyConfig().GetTracing()
	return &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling:   &typev3.Percent{Value: 100},
		OverallSampling:  &typev3.Percent{Value: 100},
		RandomSampling:   &typev3.Percent{Value: sampling(settings)},
		CustomTags:       traceTags(v, settings),
		MaxPathTagLength: message.Positive(settings.GetMaxPathTagLength()),
	}
}

func sampling(settings *meshconfig.Tracing) float64 {
	switch s := settings.GetSampling(); {
	case s == 0, s > 100:
		return defaultSampling
	default:
		return s
	}
}

// traceTags are sorted by name.
func traceTags(v view.View, settings *meshconfig.Tracing) []*tracingv3.CustomTag {
	var tags []*tracingv3.CustomTag
	if settings.GetEnableIstioTags() == nil || settings.GetEnableIstioTags().GetValue() {
		tags = append(workloadTags(v), dryRunTags...)
	}
	for _, name := range slices.Sorted(maps.Keys(settings.GetCustomTags())) {
		if tag := customTag(name, settings.GetCustomTags()[name]); tag != nil {
			tags = append(tags, tag)
		}
	}
	slices.SortStableFunc(tags, func(a, b *tracingv3.CustomTag) int { return cmp.Compare(a.GetTag(), b.GetTag()) })
	return tags
}

// workloadTags tell which workload a span is of.
func workloadTags(v view.View) []*tracingv3.CustomTag {
	return []*tracingv3.CustomTag{
		literalTag("istio.canonical_revision", v.Proxy.CanonicalRevision()),
		literalTag("istio.canonical_service", v.Proxy.CanonicalName()),
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

// customTag is nil for a tag that says nothing.
func customTag(name string, in *meshconfig.Tracing_CustomTag) *tracingv3.CustomTag {
	switch t := in.GetType().(type) {
	case *meshconfig.Tracing_CustomTag_Literal:
		return literalTag(name, t.Literal.GetValue())
	case *meshconfig.Tracing_CustomTag_Environment:
		return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Environment_{Environment: &tracingv3.CustomTag_Environment{
			Name: t.Environment.GetName(), DefaultValue: t.Environment.GetDefaultValue(),
		}}}
	case *meshconfig.Tracing_CustomTag_Header:
		return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_RequestHeader{RequestHeader: &tracingv3.CustomTag_Header{
			Name: t.Header.GetName(), DefaultValue: t.Header.GetDefaultValue(),
		}}}
	default:
		return nil
	}
}
