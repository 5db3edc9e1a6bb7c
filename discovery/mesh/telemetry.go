package mesh

import (
	"maps"
	"slices"
	"strings"
	"sync"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// Role is the part that a workload plays in a connection.
type Role int

// The roles. A router has only the one of a client.
const (
	AsClient Role = iota
	AsServer
)

// Telemetry is what a proxy tells of its requests and connections, and whom: what Telemetries and
// the default providers say. Two meshes have the same one for a proxy exactly if nothing in it
// changed in between. Nil says nothing, and all follows the rest of the MeshConfig.
type Telemetry struct {
	told       [2]Told // by role
	collectors []Collector
	from       []*kinds.Resource
}

// Told is what a proxy tells in one role.
type Told struct {
	// Logs are the access logs, sorted by the names of their providers. LogsSaid tells that these
	// count, even if there are none; otherwise the MeshConfig's own access log does.
	Logs     []AccessLog
	LogsSaid bool
	// Trace says how requests are traced; nil if the MeshConfig's own settings count.
	Trace *Trace
	// Metrics are sorted by the names of their providers.
	Metrics []Metrics
}

// As returns what is told in a role.
func (t *Telemetry) As(role Role) *Told {
	if t == nil {
		return &Told{}
	}
	return &t.told[role]
}

// collect lists where telemetry goes to, each once.
func (t *Telemetry) collect() {
	add := func(p Provider) {
		for _, c := range []Collector{p.Collector, p.Sampler} {
			if c != (Collector{}) && !slices.Contains(t.collectors, c) {
				t.collectors = append(t.collectors, c)
			}
		}
	}
	for _, told := range t.told {
		for _, l := range told.Logs {
			add(l.Provider)
		}
		if told.Trace != nil {
			add(told.Trace.Provider)
		}
	}
}

// Reached encodes which of the services that telemetry goes to are in a scope.
func (t *Telemetry) Reached(s *Scope) string {
	if t == nil {
		return ""
	}
	out := make([]byte, len(t.collectors))
	for i, c := range t.collectors {
		if out[i] = '-'; s.Reaches(c) {
			out[i] = '+'
		}
	}
	return string(out)
}

// telemetryIndex holds the Telemetries by namespace.
type telemetryIndex struct {
	root      string // the root namespace
	config    *meshconfig.MeshConfig
	providers *providerIndex
	in        map[string]*telemetries
	selectors labelNames // names of the labels that Telemetries select by
	// chooses encodes which Telemetries there are and which proxies they choose.
	chooses []string

	found once[string, *Telemetry] // by namespace and labels of proxies
	said  *saidTelemetry
}

// saidTelemetry is what was said to proxies, by the names of the Telemetries that hold for them.
// Indexes share it that have the same providers and the same MeshConfig.
type saidTelemetry struct {
	mu   sync.Mutex
	told map[string][]*Telemetry
}

// telemetries are those of a namespace, the oldest first. Of several for all its workloads the
// oldest counts. Those for some workloads count after it, each one more than those before it.
type telemetries struct {
	general  *kinds.Resource
	selected []*kinds.Resource
}

// buildTelemetries returns the index of prev if nothing changed. If the providers and the
// MeshConfig are the same, it takes over what was said to proxies whose Telemetries are the same.
func buildTelemetries(now configstore.Step, prev, m *Mesh) *telemetryIndex {
	root, before := m.Config.GetRootNamespace(), prev.telemetries
	alike := before != nil && before.config == m.Config && before.providers == m.providers
	if alike && prev.unchanged(now, kindTelemetry) {
		return before
	}
	x := &telemetryIndex{root: root, config: m.Config, providers: m.providers, in: map[string]*telemetries{}, said: &saidTelemetry{told: map[string][]*Telemetry{}}}
	labels, all := labelKeys{gatewayNameLabel: true}, map[*kinds.Resource]bool{}
	for r := range now.Of(kindTelemetry) {
		x.add(r)
		all[r] = true
		labels.add(specOf[*telemetry.Telemetry](r).GetSelector().GetMatchLabels())
	}
	x.selectors = namesIn([]labelKeys{labels})
	if alike {
		x.said = before.said
		x.said.forgetBut(all)
	}
	return x
}

func (x *telemetryIndex) add(r *kinds.Resource) {
	in := x.in[r.Namespace]
	if in == nil {
		in = &telemetries{}
		x.in[r.Namespace] = in
	}
	a := telemetryAttachment(r)
	switch {
	case !a.general():
		in.selected = append(in.selected, r)
	case in.general == nil:
		in.general = r
	default:
		return // an older one counts
	}
	x.chooses = append(x.chooses, a.encode())
}

func telemetryAttachment(r *kinds.Resource) attachment {
	spec := specOf[*telemetry.Telemetry](r)
	return attachment{of: r, selector: spec.GetSelector(), targets: targetsOrOne(spec.GetTargetRefs(), spec.GetTargetRef())}
}

// forgetBut forgets what was said by Telemetries that are gone.
func (s *saidTelemetry) forgetBut(all map[*kinds.Resource]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for names, told := range s.told {
		s.told[names] = slices.DeleteFunc(told, func(t *Telemetry) bool {
			return slices.ContainsFunc(t.from, func(r *kinds.Resource) bool { return !all[r] })
		})
	}
	maps.DeleteFunc(s.told, func(_ string, told []*Telemetry) bool { return len(told) == 0 })
}

// hasDefaults reports whether something holds for every proxy, without a Telemetry.
func (x *telemetryIndex) hasDefaults() bool {
	defaults := x.config.GetDefaultProviders()
	return len(defaults.GetAccessLogging())+len(defaults.GetTracing())+len(defaults.GetMetrics()) > 0
}

// Telemetry returns what a proxy tells of its traffic; nil if nothing says so.
func (m *Mesh) Telemetry(p *Proxy) *Telemetry {
	x := m.telemetries
	if len(x.in) == 0 && !x.hasDefaults() {
		return nil
	}
	p = m.Known(p)
	return x.found.get(p.Namespace+" "+x.selectors.encode(p.Labels), func() *Telemetry { return x.resolve(x.holding(p)) })
}

// TellsLike reports whether what proxies tell of their traffic is the same as in another mesh.
func (m *Mesh) TellsLike(other *Mesh) bool { return m.telemetries == other.telemetries }

// telemetriesOf lists those that hold for a proxy, those that count less before those that count
// more: of the root namespace, of its own, and those that select it.
func (m *Mesh) telemetriesOf(p *Proxy) []*kinds.Resource {
	if len(m.telemetries.in) == 0 {
		return nil
	}
	return m.telemetries.holding(m.Known(p))
}

func (x *telemetryIndex) holding(p *Proxy) (out []*kinds.Resource) {
	for _, namespace := range slices.Compact([]string{x.root, p.Namespace}) {
		if in := x.in[namespace]; in != nil && in.general != nil {
			out = append(out, in.general)
		}
	}
	if in := x.in[p.Namespace]; in != nil {
		for _, r := range in.selected {
			if a := telemetryAttachment(r); a.isFor(p) {
				out = append(out, r)
			}
		}
	}
	return out
}

// resolve works out what Telemetries say together, once for all proxies for which the same hold.
func (x *telemetryIndex) resolve(from []*kinds.Resource) *Telemetry {
	if len(from) == 0 && !x.hasDefaults() {
		return nil
	}
	x.said.mu.Lock()
	defer x.said.mu.Unlock()
	names := encodeNamed(from)
	for _, t := range x.said.told[names] {
		if slices.Equal(t.from, from) {
			return t
		}
	}
	t := &Telemetry{from: from}
	for _, role := range []Role{AsClient, AsServer} {
		told := &t.told[role]
		told.Logs, told.LogsSaid = x.logs(from, role)
		told.Trace = x.trace(from, role)
		told.Metrics = x.metrics(from, role)
	}
	t.collect()
	x.said.told[names] = append(x.said.told[names], t)
	return t
}

// sortsLike reports whether for every proxy Telemetries of the same names hold as in an earlier
// index.
func (x *telemetryIndex) sortsLike(before *telemetryIndex) bool {
	return x == before || x.root == before.root && slices.Equal(x.chooses, before.chooses)
}

// encodeNamed names resources.
func encodeNamed(resources []*kinds.Resource) string {
	var b strings.Builder
	for _, r := range resources {
		b.WriteString("," + r.Namespace + "/" + r.Name)
	}
	return b.String()
}

// concernsRole reports whether what is said for a mode is said for a role.
func concernsRole(mode telemetry.WorkloadMode, role Role) bool {
	switch mode {
	case telemetry.WorkloadMode_CLIENT:
		return role == AsClient
	case telemetry.WorkloadMode_SERVER:
		return role == AsServer
	default:
		return true
	}
}

// providersNamed lists the names of providers.
func providersNamed(providers []*telemetry.ProviderRef) []string {
	names := make([]string, len(providers))
	for i, p := range providers {
		names[i] = p.GetName()
	}
	return names
}

// sortedNames lists the keys of a map.
func sortedNames[V any](named map[string]V) []string { return slices.Sorted(maps.Keys(named)) }
