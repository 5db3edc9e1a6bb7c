package telemetry

import (
	"cmp"
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	otellogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// meshProvider is the name of a provider whose lines have the MeshConfig's own format, unless it
// gives another.
const meshProvider = "envoy"

// providerLog is where a provider has access logs go; false if the proxy cannot reach it.
func providerLog(v view.View, p mesh.Provider) (destination, bool) {
	if file := p.Spec.GetEnvoyFileAccessLog(); file != nil {
		format := fileFormat(file)
		if p.Spec.GetName() == meshProvider && file.GetLogFormat() == nil && !file.GetOmitEmptyValues() {
			format = meshFormat(v.Config)
		}
		return destination{file: cmp.Or(file.GetPath(), "/dev/stdout"), format: format}, true
	}
	if !v.Scope.Reaches(p.Collector) {
		return destination{}, false
	}
	return destination{logger: sent(p)}, true
}

// sent is a log that goes to a service.
func sent(p mesh.Provider) *accesslogv3.AccessLog {
	switch spec := p.Spec.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		log := spec.EnvoyHttpAls
		return logger("envoy.access_loggers.http_grpc", &grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig:                    common(p, cmp.Or(log.GetLogName(), "http_envoy_accesslog"), log.GetFilterStateObjectsToLog()),
			AdditionalRequestHeadersToLog:   log.GetAdditionalRequestHeadersToLog(),
			AdditionalResponseHeadersToLog:  log.GetAdditionalResponseHeadersToLog(),
			AdditionalResponseTrailersToLog: log.GetAdditionalResponseTrailersToLog(),
		})
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		log := spec.EnvoyTcpAls
		return logger("envoy.tcp_grpc_access_log", &grpclogv3.TcpGrpcAccessLogConfig{
			CommonConfig: common(p, cmp.Or(log.GetLogName(), "tcp_envoy_accesslog"), log.GetFilterStateObjectsToLog()),
		})
	default:
		return logger("envoy.access_loggers.open_telemetry", openTelemetryLog(p))
	}
}

func logger(name string, config proto.Message) *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{Name: name, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: message.Pack(config)}}
}

// peers is what Istio's proxies know of those at both ends. The names are the same where something
// else notes it.
var peers = []string{"upstream_peer", "downstream_peer"}

// common is what logs over gRPC have in common.
func common(p mesh.Provider, name string, state []string) *grpclogv3.CommonGrpcAccessLogConfig {
	if len(state) == 0 {
		state = peers
	}
	return &grpclogv3.CommonGrpcAccessLogConfig{
		LogName: name, GrpcService: overGRPC(p.Collector), TransportApiVersion: corev3.ApiVersion_V3, FilterStateObjectsToLog: state,
	}
}

func clusterOf(c mesh.Collector) string { return naming.Cluster(c.Port, "", c.Host) }

// overGRPC speaks gRPC to a collector.
func overGRPC(c mesh.Collector) *corev3.GrpcService {
	return message.GRPC(clusterOf(c), c.Host)
}

// openTelemetryLog has a text for each entry, and labels as its attributes.
func openTelemetryLog(p mesh.Provider) *otellogv3.OpenTelemetryAccessLogConfig {
	log := p.Spec.GetEnvoyOtelAls()
	text, labels := cmp.Or(log.GetLogFormat().GetText(), textLog), log.GetLogFormat().GetLabels()
	out := &otellogv3.OpenTelemetryAccessLogConfig{
		GrpcService:             overGRPC(p.Collector),
		LogName:                 cmp.Or(log.GetLogName(), "otel_envoy_accesslog"),
		FilterStateObjectsToLog: peers,
		DisableBuiltinLabels:    true,
		Body:                    textValue(text),
		Formatters:              formatters(text + labels.String()),
	}
	for _, name := range slices.Sorted(maps.Keys(labels.GetFields())) {
		if out.Attributes == nil {
			out.Attributes = &commonv1.KeyValueList{}
		}
		out.Attributes.Values = append(out.Attributes.Values, &commonv1.KeyValue{Key: name, Value: textValue(labels.GetFields()[name].GetStringValue())})
	}
	return out
}

func textValue(text string) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: text}}
}
