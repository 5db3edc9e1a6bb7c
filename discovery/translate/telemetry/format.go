package telemetry

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	withoutqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
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

const (
	theirFailure = "%UPSTREAM_TRANSPORT_FAILURE_REASON%"
	ownFailure   = "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%"
)

// handshakeFormat puts the reason where that of failed connections to upstreams would be: so a line
// has the same fields as every other.
func handshakeFormat(format *corev3.SubstitutionFormatString) *corev3.SubstitutionFormatString {
	out := message.Copied(format)
	if text := format.GetTextFormatSource(); text != nil {
		out.Format = textSource(strings.ReplaceAll(text.GetInlineString(), theirFailure, ownFailure))
	} else {
		out.Format = &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: replaced(format.GetJsonFormat(), theirFailure, ownFailure)}
	}
	return out
}

func textSource(text string) *corev3.SubstitutionFormatString_TextFormatSource {
	return &corev3.SubstitutionFormatString_TextFormatSource{
		TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
	}
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

// meshFormat is what the MeshConfig wants lines of its access log to be.
func meshFormat(config *meshconfig.MeshConfig) *corev3.SubstitutionFormatString {
	if config.GetAccessLogEncoding() == meshconfig.MeshConfig_JSON {
		return jsonLines(jsonFormat(config.GetAccessLogFormat()))
	}
	return textLines(config.GetAccessLogFormat())
}

// fileFormat is what the provider of a file wants lines to be.
func fileFormat(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider) *corev3.SubstitutionFormatString {
	format := textLines(p.GetLogFormat().GetText())
	if labels, are := p.GetLogFormat().GetLogFormat().(*meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat_Labels); are {
		object := labels.Labels
		if len(object.GetFields()) == 0 {
			object = jsonLog
		}
		format = jsonLines(object)
	}
	format.OmitEmptyValues = p.GetOmitEmptyValues()
	return format
}

func jsonLines(object *structpb.Struct) *corev3.SubstitutionFormatString {
	return &corev3.SubstitutionFormatString{
		Format:            &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: object},
		JsonFormatOptions: &corev3.JsonFormatOptions{},
		Formatters:        formatters(object.String()),
	}
}

func textLines(format string) *corev3.SubstitutionFormatString {
	text := textFormat(format)
	return &corev3.SubstitutionFormatString{Format: textSource(text), Formatters: formatters(text)}
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
