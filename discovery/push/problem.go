package push

import (
	"cmp"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Problem is something wrong that discovery knows of at the moment.
type Problem struct {
	mesh.Problem

	Code Code
	// At names one of those that have the problem: a resource of Envoy's, or a proxy; "" where it is the same for all.
	At string
}

// Code is a short name for a sort of problem.
type Code string

const (
	NotAsWritten   Code = "not-as-written"    // a resource does not mean what it says, because of another
	LeftOut        Code = "left-out"          // routers leave out a part of a resource
	PatchUnapplied Code = "patch-not-applied" // a patch of an EnvoyFilter
	SecretDenied   Code = "secret-denied"     // a proxy asks for it and is not given it
	KeysMissing    Code = "keys-missing"      // that tokens are to be checked with
	Refused        Code = "listener-refused"  // a proxy does without a listener, or goes on with an old one
)

// Problems lists all that stands at the moment, in the order of kind, namespace and name. It is not ok while there is no mesh yet.
func (e *Engine) Problems() (all []Problem, ok bool) {
	m, all := e.ofProxies()
	if m == nil {
		return nil, false
	}
	return sorted(append(all, between(m)...)), true
}

// ofProxies lists what depends on which proxies there are, with the mesh that it is about.
func (e *Engine) ofProxies() (*mesh.Mesh, []Problem) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mesh == nil {
		return nil, nil
	}
	return e.mesh, slices.Concat(conflicts(e.mesh, e.classes), unpatched(e.mesh, e.classes), e.denied(), e.refusedByProxies())
}

// between lists what is wrong between resources.
func between(m *mesh.Mesh) (out []Problem) {
	for _, p := range m.Problems() {
		out = append(out, Problem{Problem: p, Code: NotAsWritten})
	}
	for _, p := range m.KeyProblems() {
		out = append(out, Problem{Problem: p, Code: KeysMissing})
	}
	return out
}

// sorted brings problems into their order, each once, however many have it: at the first of those.
func sorted(all []Problem) []Problem {
	slices.SortFunc(all, func(a, b Problem) int { return cmp.Or(a.compare(b), cmp.Compare(a.At, b.At)) })
	return slices.CompactFunc(all, func(a, b Problem) bool { return a.compare(b) == 0 })
}

func (p Problem) compare(o Problem) int {
	return cmp.Or(cmp.Compare(p.Of.Kind.Name, o.Of.Kind.Name), cmp.Compare(p.Of.Namespace, o.Of.Namespace), cmp.Compare(p.Of.Name, o.Of.Name),
		cmp.Compare(p.Path, o.Path), cmp.Compare(p.Code, o.Code), cmp.Compare(p.Reason, o.Reason))
}

// teller has the log tell of each problem once for as long as it lasts, and again when it comes back, and a metric count them.
type teller struct {
	log     *slog.Logger
	message string
	count   prometheus.Gauge
	told    map[mesh.Problem]bool
}

func newTeller(log *slog.Logger, metrics prometheus.Registerer, message string, gauge prometheus.GaugeOpts) *teller {
	t := &teller{log: log, message: message, count: prometheus.NewGauge(gauge)}
	metrics.MustRegister(t.count)
	return t
}

func (t *teller) tell(revision string, standing []Problem) {
	now := make(map[mesh.Problem]bool, len(standing))
	for _, p := range sorted(standing) {
		if now[p.Problem] = true; !t.told[p.Problem] {
			t.log.Warn(t.message, "revision", revision, "resource", p.Of.String(), "path", p.Path, "at", p.At, "reason", p.Reason)
		}
	}
	t.told = now
	t.count.Set(float64(len(now)))
}

// tellers are those of the problems that come of the configuration.
type tellers struct{ between, conflicts, unpatched *teller }

func newTellers(log *slog.Logger, metrics prometheus.Registerer) tellers {
	return tellers{
		between: newTeller(log, metrics, "a resource does not mean what it says", prometheus.GaugeOpts{
			Name: "pgmesh_discovery_problems",
			Help: "What is wrong between resources of the mesh that are each right by themselves; the log and /problems have each.",
		}),
		conflicts: newTeller(log, metrics, "routers leave out a part of a resource", prometheus.GaugeOpts{
			Name: "pgmesh_discovery_gateway_conflicts",
			Help: "Servers of Gateways, and routes on them, that routers leave out because others are there already; the log and /problems have each.",
		}),
		unpatched: newTeller(log, metrics, "a patch of an EnvoyFilter is not applied as it is written; everything else is", prometheus.GaugeOpts{
			Name: "pgmesh_discovery_patches_not_applied",
			Help: "Patches of EnvoyFilters that are not applied as they are written, or not everywhere; the log and /problems have each.",
		}),
	}
}

// tellOfClasses tells of what depends on which proxies there are.
func (e *Engine) tellOfClasses() {
	e.tellers.conflicts.tell(e.revision, conflicts(e.mesh, e.classes))
	e.tellers.unpatched.tell(e.revision, unpatched(e.mesh, e.classes))
}
