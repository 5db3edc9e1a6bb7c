package telemetry

import (
	"cmp"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	detectorsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/resource_detectors/v3"
	samplersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/samplers/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// exportTimeout is how long a collector may take unless its provider says otherwise. Envoy wants
// to be told.
var exportTimeout = durationpb.New(5 * time.Second)

// tracer sends spans to a provider. It is nil if the proxy cannot reach it.
func tracer(v view.View, p mesh.Provider) *tracev3.Tracing_Http {
	if !v.Scope.Reaches(p.Collector) {
		return nil
	}
	switch p.Spec.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		return traceConfig("envoy.tracers.zipkin", zipkin(p))
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		return traceConfig("envoy.tracers.datadog", &tracev3.DatadogConfig{
			CollectorCluster: clusterOf(p.Collector), CollectorHostname: p.Collector.Host, ServiceName: v.Proxy.SpanService(p),
		})
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		return traceConfig("envoy.tracers.skywalking", skywalking(p))
	default:
		return traceConfig("envoy.tracers.opentelemetry", openTelemetry(v, p))
	}
}

func traceConfig(name string, config proto.Message) *tracev3.Tracing_Http {
	return &tracev3.Tracing_Http{Name: name, ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: message.Pack(config)}}
}

func zipkin(p mesh.Provider) *tracev3.ZipkinConfig {
	spec := p.Spec.GetZipkin()
	out := &tracev3.ZipkinConfig{
		CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
		CollectorService:         overHTTP(p.Collector, cmp.Or(spec.GetPath(), "/api/v2/spans"), spec.GetTimeout(), spec.GetHeaders()),
		TraceId_128Bit:           !spec.GetEnable_64BitTraceId(),
		SharedSpanContext:        message.No,
	}
	if spec.GetTraceContextOption() == meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider_USE_B3_WITH_W3C_PROPAGATION {
		out.TraceContextOption = tracev3.ZipkinConfig_USE_B3_WITH_W3C_PROPAGATION
	}
	return out
}

// skywalking has the token that the collector wants, which Istio leaves out.
func skywalking(p mesh.Provider) *tracev3.SkyWalkingConfig {
	out := &tracev3.SkyWalkingConfig{GrpcService: overGRPC(p.Collector)}
	if token := p.Spec.GetSkywalking().GetAccessToken(); token != "" {
		out.ClientConfig = &tracev3.ClientConfig{BackendTokenSpecifier: &tracev3.ClientConfig_BackendToken{BackendToken: token}}
	}
	return out
}

func openTelemetry(v view.View, p mesh.Provider) *tracev3.OpenTelemetryConfig {
	spec := p.Spec.GetOpentelemetry()
	out := &tracev3.OpenTelemetryConfig{ServiceName: v.Proxy.SpanService(p), ResourceDetectors: detectors(spec), Sampler: sampler(v, p)}
	if http := spec.GetHttp(); http != nil {
		out.HttpService = overHTTP(p.Collector, http.GetPath(), http.GetTimeout(), http.GetHeaders())
		return out
	}
	out.GrpcService = overGRPC(p.Collector)
	out.GrpcService.Timeout = spec.GetGrpc().GetTimeout()
	for _, h := range spec.GetGrpc().GetInitialMetadata() {
		if h.GetEnvName() == "" { // Envoy sends these values as they are, and knows no other
			out.GrpcService.InitialMetadata = append(out.GrpcService.InitialMetadata, &corev3.HeaderValue{Key: h.GetName(), Value: h.GetValue()})
		}
	}
	return out
}

// overHTTP posts to a collector.
func overHTTP(to mesh.Collector, path string, timeout *durationpb.Duration, headers []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader) *corev3.HttpService {
	out := &corev3.HttpService{HttpUri: &corev3.HttpUri{
		Uri:              "http://" + to.Host + "/" + strings.TrimPrefix(path, "/"), // Envoy connects to the cluster
		HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: clusterOf(to)},
		Timeout:          cmp.Or(timeout, exportTimeout),
	}}
	for _, h := range headers {
		out.RequestHeadersToAdd = append(out.RequestHeadersToAdd, &corev3.HeaderValueOption{
			Header: written(h), AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return out
}

// written is a header as Envoy writes it to HTTP services: its value is a format there. One from the
// environment is from that of Envoy, so a secret stays on its machine.
func written(h *meshconfig.MeshConfig_ExtensionProvider_HttpHeader) *corev3.HeaderValue {
	value := strings.ReplaceAll(h.GetValue(), "%", "%%")
	if name := h.GetEnvName(); name != "" {
		value = "%ENVIRONMENT(" + name + ")%"
	}
	return &corev3.HeaderValue{Key: h.GetName(), Value: value}
}

const detectorName = "envoy.tracers.opentelemetry.resource_detectors."

// detectors find what the machine says of itself.
func detectors(spec *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider) (out []*corev3.TypedExtensionConfig) {
	conventional := spec.GetServiceAttributeEnrichment() == meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS
	if spec.GetResourceDetectors().GetEnvironment() != nil || conventional {
		out = append(out, extension(detectorName+"environment", &detectorsv3.EnvironmentResourceDetectorConfig{}))
	}
	if spec.GetResourceDetectors().GetDynatrace() != nil {
		out = append(out, extension(detectorName+"dynatrace", &detectorsv3.DynatraceResourceDetectorConfig{}))
	}
	return out
}

func extension(name string, config proto.Message) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: message.Pack(config)}
}

// sampler asks Dynatrace which requests are to be traced. Where the provider does not say how, it
// is asked as spans are sent. It is nil if the provider has none, or one that cannot be asked.
func sampler(v view.View, p mesh.Provider) *corev3.TypedExtensionConfig {
	spec := p.Spec.GetOpentelemetry()
	dynatrace := spec.GetDynatraceSampler()
	if dynatrace == nil {
		return nil
	}
	out := &samplersv3.DynatraceSamplerConfig{
		Tenant: dynatrace.GetTenant(), ClusterId: dynatrace.GetClusterId(), RootSpansPerMinute: dynatrace.GetRootSpansPerMinute(),
	}
	switch own := dynatrace.GetHttpService().GetHttp(); {
	case own != nil && v.Scope.Reaches(p.Sampler):
		out.HttpService = overHTTP(p.Sampler, own.GetPath(), own.GetTimeout(), own.GetHeaders())
	case own == nil && spec.GetHttp() != nil:
		out.HttpService = overHTTP(p.Collector, "api/v2/samplingConfiguration", spec.GetHttp().GetTimeout(), spec.GetHttp().GetHeaders())
	default:
		return nil
	}
	return extension("envoy.tracers.opentelemetry.samplers.dynatrace", out)
}
