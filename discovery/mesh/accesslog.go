package mesh

import (
	"slices"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
)

// AccessLog is a log of requests and connections.
type AccessLog struct {
	Provider Provider
	// Filter is an expression of CEL that says what is logged; "" stands for all.
	Filter string
}

// accessLogging is what is said of the logs that go to one provider.
type accessLogging struct {
	filter   string
	disabled bool
}

// logs returns the access logs in a role. Said is false if neither a Telemetry nor the default
// providers say anything of them that can be done. As by Istio, a resource that names providers
// replaces those of the resources before it, and what names none is about the providers of what is
// before it.
func (x *telemetryIndex) logs(from []*kinds.Resource, role Role) (out []AccessLog, said bool) {
	levels, logging := accessLevels(from), map[string]accessLogging{}
	inherited := x.config.GetDefaultProviders().GetAccessLogging()
	if len(levels) == 0 {
		for _, name := range inherited {
			logging[name] = accessLogging{}
		}
	}
	inScope, filters := loggers(levels, inherited, role)
	for _, entry := range slices.Concat(levels...) {
		names := providersNamed(entry.GetProviders())
		if len(names) == 0 {
			names = inherited
		}
		inherited = names
		if !concernsRole(entry.GetMatch().GetMode(), role) {
			continue
		}
		for _, name := range names {
			if slices.Contains(inScope, name) {
				logging[name] = accessLogging{filters[name], entry.GetDisabled().GetValue()}
			}
		}
	}
	for _, name := range sortedNames(logging) {
		p, known := x.providers.find(name)
		if !known || !p.LogsAccess() || p.Wrong != "" {
			continue
		}
		if said = true; !logging[name].disabled {
			out = append(out, AccessLog{p, logging[name].filter})
		}
	}
	return out, said
}

// accessLevels returns what each resource says of access logs, without those that say nothing.
func accessLevels(from []*kinds.Resource) (out [][]*telemetry.AccessLogging) {
	for _, r := range from {
		if logging := specOf[*telemetry.Telemetry](r).GetAccessLogging(); len(logging) > 0 {
			out = append(out, logging)
		}
	}
	return out
}

// loggers returns the names of the providers that count in a role, and the filter of each: what was
// said last of it.
func loggers(levels [][]*telemetry.AccessLogging, inScope []string, role Role) (names []string, filters map[string]string) {
	filters = map[string]string{}
	for _, level := range levels {
		var named []string
		for _, entry := range level {
			if !concernsRole(entry.GetMatch().GetMode(), role) {
				continue
			}
			about := providersNamed(entry.GetProviders())
			if named = append(named, about...); len(about) == 0 && entry.GetFilter() != nil {
				about = inScope // where Istio does not read the filter, and logs everything
				if len(named) > 0 {
					about = named
				}
			}
			for _, name := range about {
				filters[name] = entry.GetFilter().GetExpression()
			}
		}
		if len(named) > 0 {
			inScope = named
		}
	}
	return inScope, filters
}
