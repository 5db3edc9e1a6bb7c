// Package telemetry is what proxies tell of requests and connections: access logs and traces.
package telemetry

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	withoutqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// textLog is a line of the access log where the MeshConfig does not say otherwise. It is Istio's,
// which people's log pipelines parse.
const textLog = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
	`%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% ` +
	`%DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" ` +
	`"%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% ` +
	`%DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%` + "\n"

// jsonLog is the same as an object, with the keys that Istio gives them.
var jsonLog = textStruct(map[string]string{
	"authority":                         "%REQ(:AUTHORITY)%",
	"bytes_received":                    "%BYTES_RECEIVED%",
	"bytes_sent":                        "%BYTES_SENT%",
	"connection_termination_details":    "%CONNECTION_TERMINATION_DETAILS%",
	"downstream_local_address":          "%DOWNSTREAM_LOCAL_ADDRESS%",
	"downstream_remote_address":         "%DOWNSTREAM_REMOTE_ADDRESS%",
	"duration":                          "%DURATION%",
	"method":                            "%REQ(:METHOD)%",
	"path":                              "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
	"protocol":                          "%PROTOCOL%",
	"request_id":                        "%REQ(X-REQUEST-ID)%",
	"requested_server_name":             "%REQUESTED_SERVER_NAME%",
	"response_code":                     "%RESPONSE_CODE%",
	"response_code_details":             "%RESPONSE_CODE_DETAILS%",
	"response_flags":                    "%RESPONSE_FLAGS%",
	"route_name":                        "%ROUTE_NAME%",
	"start_time":                        "%START_TIME%",
	"upstream_cluster":                  "%UPSTREAM_CLUSTER_RAW%",
	"upstream_host":                     "%UPSTREAM_HOST%",
	"upstream_local_address":            "%UPSTREAM_LOCAL_ADDRESS%",
	"upstream_service_time":             "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
	"upstream_transport_failure_reason": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
	"user_agent":                        "%REQ(USER-AGENT)%",
	"x_forwarded_for":                   "%REQ(X-FORWARDED-FOR)%",
})

func textStruct(texts map[string]string) *structpb.Struct {
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(texts))}
	for key, text := range texts {
		out.Fields[key] = structpb.NewStringValue(text)
	}
	return out
}

// AccessLogs returns the logs of requests and connections, or none if the MeshConfig names no file.
func AccessLogs(v view.View) []*accesslogv3.AccessLog { return fileLog(v, nil, logFormat) }

// ListenerLogs are for connections that no filter can log: those that no filter chain is for, and
// those whose handshake failed.
func ListenerLogs(v view.View) []*accesslogv3.AccessLog {
	if v.Config.GetDisableEnvoyListenerLog() {
		return nil
	}
	return append(fileLog(v, unmatched, logFormat), fileLog(v, unshaken, handshakeFormat)...)
}

var unmatched = &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
	ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}},
}}

// unshaken is why a member of the mesh cannot get in, which is nowhere else to be read. What was no
// TLS at all is unmatched, too.
var unshaken = &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
	ExtensionFilter: &accesslogv3.ExtensionFilter{
		Name: "envoy.access_loggers.extension_filters.cel",
		ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: message.Pack(&celv3.ExpressionFilter{
			Expression: "connection.transport_failure_reason != '' && response.flags == 0",
		})},
	},
}}

func fileLog(v view.View, only *accesslogv3.AccessLogFilter, format func(*meshconfig.MeshConfig) *corev3.SubstitutionFormatString) []*accesslogv3.AccessLog {
	if v.Config.GetAccessLogFile() == "" {
		return nil
	}
	return []*accesslogv3.AccessLog{{
		Name:   "envoy.access_loggers.file",
		Filter: only,
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: message.Pack(&filelogv3.FileAccessLog{
			Path:            v.Config.GetAccessLogFile(),
			AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: format(v.Config)},
		})},
	}}
}

const (
	theirFailure = "%UPSTREAM_TRANSPORT_FAILURE_REASON%"
	ownFailure   = "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%"
)

// handshakeFormat puts the reason where that of failed connections to upstreams would be: so a line
// has the same fields as every other.
func handshakeFormat(config *meshconfig.MeshConfig) *corev3.SubstitutionFormatString {
	format := logFormat(config)
	if text := format.GetTextFormatSource(); text != nil {
		text.Specifier = &corev3.DataSource_InlineString{InlineString: strings.ReplaceAll(text.GetInlineString(), theirFailure, ownFailure)}
	} else {
		format.Format = &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: replaced(format.GetJsonFormat(), theirFailure, ownFailure)}
	}
	return format
}

// replaced is a struct with a text replaced in all of its texts.
func replaced(s *structpb.Struct, old, by string) *structpb.Struct {
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(s.GetFields()))}
	for key, value := range s.GetFields() {
		switch kind := value.GetKind().(type) {
		case *structpb.Value_StringValue:
			value = structpb.NewStringValue(strings.ReplaceAll(kind.StringValue, old, by))
		case *structpb.Value_StructValue:
			value = structpb.NewStructValue(replaced(kind.StructValue, old, by))
		}
		out.Fields[key] = value
	}
	return out
}

func logFormat(config *meshconfig.MeshConfig) *corev3.SubstitutionFormatString {
	if config.GetAccessLogEncoding() == meshconfig.MeshConfig_JSON {
		format := jsonFormat(config.GetAccessLogFormat())
		return &corev3.SubstitutionFormatString{
			Format:            &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: format},
			JsonFormatOptions: &corev3.JsonFormatOptions{},
			Formatters:        formatters(format.String()),
		}
	}
	text := textFormat(config.GetAccessLogFormat())
	return &corev3.SubstitutionFormatString{
		Format: &corev3.SubstitutionFormatString_TextFormatSource{
			TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
		},
		Formatters: formatters(text),
	}
}

// textFormat ends lines.
func textFormat(format string) string {
	switch {
	case format == "":
		return textLog
	case strings.HasSuffix(format, "\n"):
		return format
	default:
		return format + "\n"
	}
}

// jsonFormat is Istio's own if none is given, or one that is not an object of JSON. The validation
// tells of that.
func jsonFormat(format string) *structpb.Struct {
	var given structpb.Struct
	if format == "" || protojson.Unmarshal([]byte(format), &given) != nil {
		return jsonLog
	}
	return &given
}

// withoutQuery understands %REQ_WITHOUT_QUERY()%, which Envoy knows as an extension only.
var withoutQuery = []*corev3.TypedExtensionConfig{{
	Name: "envoy.formatter.req_without_query", TypedConfig: message.Pack(&withoutqueryv3.ReqWithoutQuery{}),
}}

// formatters are the extensions that a format needs.
func formatters(format string) []*corev3.TypedExtensionConfig {
	if !strings.Contains(format, "%REQ_WITHOUT_QUERY") {
		return nil
	}
	return withoutQuery
}
