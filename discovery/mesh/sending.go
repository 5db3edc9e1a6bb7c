package mesh

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/substitution"
)

// wrongSending says which settings of a provider Envoy would refuse, with every listener that has
// them.
func wrongSending(spec *meshconfig.MeshConfig_ExtensionProvider) string {
	for _, wrong := range []string{
		wrongFormats(spec), wrongTimeouts(spec), wrongHeaders(spec.GetZipkin().GetHeaders(), false), wrongTracer(spec.GetOpentelemetry()),
	} {
		if wrong != "" {
			return wrong
		}
	}
	return ""
}

func wrongFormats(spec *meshconfig.MeshConfig_ExtensionProvider) string {
	file, otel := spec.GetEnvoyFileAccessLog().GetLogFormat(), spec.GetEnvoyOtelAls().GetLogFormat()
	for _, text := range []string{file.GetText(), otel.GetText()} {
		if wrong := substitution.Wrong(text); wrong != "" {
			return "its logFormat.text " + wrong
		}
	}
	for _, labels := range []*structpb.Struct{file.GetLabels(), otel.GetLabels()} {
		if at, wrong := wrongLabel(labels); wrong != "" {
			return fmt.Sprintf("its logFormat.labels.%s %s", at, wrong)
		}
	}
	return ""
}

// wrongLabel finds a text in an object that is no format.
func wrongLabel(labels *structpb.Struct) (at, wrong string) {
	for _, name := range sortedNames(labels.GetFields()) {
		value := labels.GetFields()[name]
		if inner := value.GetStructValue(); inner != nil {
			if at, wrong = wrongLabel(inner); wrong != "" {
				return name + "." + at, wrong
			}
		}
		if wrong = substitution.Wrong(value.GetStringValue()); wrong != "" {
			return name, wrong
		}
	}
	return "", ""
}

func wrongTimeouts(spec *meshconfig.MeshConfig_ExtensionProvider) string {
	otel := spec.GetOpentelemetry()
	for _, t := range []*durationpb.Duration{
		spec.GetZipkin().GetTimeout(), otel.GetHttp().GetTimeout(), otel.GetGrpc().GetTimeout(), otel.GetDynatraceSampler().GetHttpService().GetHttp().GetTimeout(),
	} {
		if t != nil && (t.CheckValid() != nil || t.AsDuration() <= 0) {
			return "its timeout is not above zero. Write one as 2s, or leave it out"
		}
	}
	return ""
}

func wrongTracer(spec *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider) string {
	for _, headers := range [][]*meshconfig.MeshConfig_ExtensionProvider_HttpHeader{
		spec.GetHttp().GetHeaders(), spec.GetDynatraceSampler().GetHttpService().GetHttp().GetHeaders(),
	} {
		if wrong := wrongHeaders(headers, false); wrong != "" {
			return wrong
		}
	}
	if sampler := spec.GetDynatraceSampler(); sampler != nil && spec.GetHttp() == nil && sampler.GetHttpService().GetHttp() == nil {
		return "its dynatraceSampler has nobody to ask. Write httpService there, or send spans over http"
	}
	return wrongHeaders(spec.GetGrpc().GetInitialMetadata(), true)
}

// wrongHeaders says which headers cannot be sent. Over gRPC, Envoy refuses values that are no
// formats, and sends others as they are.
func wrongHeaders(headers []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader, overGRPC bool) string {
	for _, h := range headers {
		switch {
		case h.GetName() == "" || strings.ContainsFunc(h.GetName()+h.GetEnvName(), notInName):
			return fmt.Sprintf("its header %q has a name that no header, or no variable, can have. Correct it", h.GetName())
		case strings.ContainsAny(h.GetValue(), "\x00\r\n"):
			return fmt.Sprintf("its header %q has a value that no header can have. Correct it", h.GetName())
		case overGRPC && strings.Contains(h.GetValue(), "%"):
			return fmt.Sprintf("its grpc.initialMetadata %q has a \"%%\", which Envoy cannot send over gRPC. Send over http", h.GetName())
		}
	}
	return ""
}

func notInName(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}%", c)
}
