package mesh

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/substitution"
	"github.com/pgmesh/pgmesh/kinds"
)

// signal is one of what a Telemetry is about.
type signal struct {
	noun  string
	takes func(Provider) bool
	path  string // in a Telemetry
	field string // of the default providers
}

// The signals.
var (
	logSignal    = signal{"access logs", Provider.LogsAccess, "spec.accessLogging", "accessLogging"}
	traceSignal  = signal{"traces", Provider.Traces, "spec.tracing", "tracing"}
	metricSignal = signal{"metrics", Provider.Measures, "spec.metrics", "metrics"}
)

// telemetryProblems lists Telemetries, and default providers, that do not mean what they say.
func (m *Mesh) telemetryProblems() (out []Problem) {
	general := map[string]*kinds.Resource{}
	for r := range m.from.Of(kindTelemetry) {
		if a := telemetryAttachment(r); a.general() {
			if first := general[r.Namespace]; first != nil {
				out = append(out, Problem{Of: r.Key(), Path: "spec", Reason: fmt.Sprintf(
					"is without effect: the older %s is for all proxies of the namespace, too, and of several the oldest counts. Remove one of the two, or have it select workloads",
					first.Key())})
				continue
			}
			general[r.Namespace] = r
		}
		out = append(out, m.providers.unknown(r)...)
		out = append(out, wrongTags(r)...)
	}
	out = append(out, m.formatProblems()...)
	return append(out, m.defaultProviderProblems()...)
}

// formatProblems tells that Envoy would refuse the format of the MeshConfig's own access log.
func (m *Mesh) formatProblems() []Problem {
	of, some := m.MeshConfig()
	wrong := substitution.Wrong(m.Config.GetAccessLogFormat())
	if m.Config.GetAccessLogEncoding() == meshconfig.MeshConfig_JSON {
		_, wrong = wrongLabel(objectOf(m.Config.GetAccessLogFormat()))
	}
	if !some || wrong == "" {
		return nil
	}
	return []Problem{{Of: of, Path: "spec.accessLogFormat", Reason: wrong + ". Until then Envoy refuses each listener that has it"}}
}

// objectOf reads an object of JSON. What is none says nothing.
func objectOf(text string) *structpb.Struct {
	out := &structpb.Struct{}
	if protojson.Unmarshal([]byte(text), out) != nil {
		return nil
	}
	return out
}

// unknown lists the providers that a Telemetry names in vain.
func (x *providerIndex) unknown(r *kinds.Resource) (out []Problem) {
	spec := specOf[*telemetry.Telemetry](r)
	look := func(s signal, at int, providers []*telemetry.ProviderRef) {
		for i, p := range providers {
			if wrong := x.inVain(p.GetName(), s); wrong != "" {
				out = append(out, Problem{Of: r.Key(), Path: fmt.Sprintf("%s[%d].providers[%d].name", s.path, at, i), Reason: wrong})
			}
		}
	}
	for i, entry := range spec.GetAccessLogging() {
		look(logSignal, i, entry.GetProviders())
	}
	for i, entry := range spec.GetTracing() {
		look(traceSignal, i, entry.GetProviders())
	}
	for i, entry := range spec.GetMetrics() {
		look(metricSignal, i, entry.GetProviders())
	}
	return out
}

// wrongTags lists the tags that are left out because Envoy would refuse their formats.
func wrongTags(r *kinds.Resource) (out []Problem) {
	for i, entry := range specOf[*telemetry.Telemetry](r).GetTracing() {
		for _, name := range sortedNames(entry.GetCustomTags()) {
			if wrong := substitution.Wrong(entry.GetCustomTags()[name].GetFormatter().GetValue()); wrong != "" {
				out = append(out, Problem{Of: r.Key(), Path: fmt.Sprintf("spec.tracing[%d].customTags.%s.formatter.value", i, name), Reason: wrong + "; until then spans do without the tag"})
			}
		}
	}
	return out
}

// inVain says why nothing goes to the provider of a name; "" if it does.
func (x *providerIndex) inVain(name string, s signal) string {
	p, known := x.find(name)
	switch {
	case !known:
		return fmt.Sprintf("no %s go there: the MeshConfig has no extension provider %q. Add it there, or name one of %s", s.noun, name, x.taking(s))
	case !s.takes(p):
		return fmt.Sprintf("no %s go there: the extension provider %q takes none. Name one of %s", s.noun, name, x.taking(s))
	case p.Wrong != "":
		return fmt.Sprintf("no %s go there: nothing can be sent to the extension provider %q: %s", s.noun, name, p.Wrong)
	default:
		return ""
	}
}

// taking lists the providers that a signal can go to.
func (x *providerIndex) taking(s signal) string {
	var names []string
	for _, name := range sortedNames(x.named) {
		if p := x.named[name]; s.takes(p) {
			names = append(names, fmt.Sprintf("%q", p.Spec.GetName()))
		}
	}
	if len(names) == 0 {
		return "those that take some: there is none yet"
	}
	return strings.Join(names, ", ")
}

// defaultProviderProblems lists the default providers that are named in vain.
func (m *Mesh) defaultProviderProblems() (out []Problem) {
	of, some := m.MeshConfig()
	defaults := m.Config.GetDefaultProviders()
	if !some || defaults == nil {
		return nil
	}
	for _, by := range []struct {
		signal
		names []string
	}{{logSignal, defaults.GetAccessLogging()}, {traceSignal, defaults.GetTracing()}, {metricSignal, defaults.GetMetrics()}} {
		for i, name := range by.names {
			if wrong := m.providers.inVain(name, by.signal); wrong != "" {
				out = append(out, Problem{Of: of, Path: fmt.Sprintf("spec.defaultProviders.%s[%d]", by.field, i), Reason: wrong})
			}
		}
	}
	return out
}
