package mesh

import (
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
)

// Trace says how requests are traced, in place of the MeshConfig's own settings.
type Trace struct {
	// Provider is where spans go to. If Disabled is set there are none.
	Provider Provider
	Disabled bool
	// Sampling is the percentage of requests that are traced; nil if the rest of the configuration
	// says so.
	Sampling *float64
	// Tags describe each span, in place of those of the MeshConfig unless there are none.
	Tags map[string]*telemetry.Tracing_CustomTag
	// WithoutRequestID has the decision about a trace not be read from the id of a request.
	WithoutRequestID bool
	// WithoutWorkload leaves out the tags that say which workload a span is of.
	WithoutWorkload bool
	// WithoutPropagation keeps the trace from those whom requests are sent to.
	WithoutPropagation bool
}

// trace returns what is said of traces in a role; nil if nothing is. What a later resource sets
// replaces what those before it set, field by field.
func (x *telemetryIndex) trace(from []*kinds.Resource, role Role) *Trace {
	defaults := x.config.GetDefaultProviders().GetTracing()
	said, out := len(defaults) > 0, &Trace{}
	name := firstOf(defaults)
	for _, r := range from {
		for _, entry := range specOf[*telemetry.Telemetry](r).GetTracing() {
			said = true
			if !concernsRole(entry.GetMatch().GetMode(), role) {
				continue
			}
			if named := firstOf(providersNamed(entry.GetProviders())); named != "" {
				name = named
			}
			out.set(entry)
		}
	}
	if !said {
		return nil
	}
	p, known := x.providers.find(name)
	if out.Provider = p; !known || !p.Traces() || p.Wrong != "" {
		out.Disabled = true
	}
	return out
}

// set sets what one entry of a Telemetry says.
func (t *Trace) set(entry *telemetry.Tracing) {
	if v := entry.GetDisableSpanReporting(); v != nil {
		t.Disabled = v.GetValue()
	}
	if v := entry.GetRandomSamplingPercentage(); v != nil {
		t.Sampling = &v.Value
	}
	if tags := entry.GetCustomTags(); tags != nil {
		t.Tags = tags
	}
	if v := entry.GetUseRequestIdForTraceSampling(); v != nil {
		t.WithoutRequestID = !v.GetValue()
	}
	if v := entry.GetEnableIstioTags(); v != nil {
		t.WithoutWorkload = !v.GetValue()
	}
	if v := entry.GetDisableContextPropagation(); v != nil {
		t.WithoutPropagation = v.GetValue()
	}
}

// firstOf is the provider that counts of several: spans go to one.
func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
