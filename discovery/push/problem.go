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
	// At names one of the resources of Envoy's, or one of the proxies, that have the problem. It is
	// "" if the problem is the same for all.
	At string
}

// Code is a short name for a type of problem. People have alerts and queries on codes: a code keeps
// its meaning, and its name, for good. What is wrong in another way gets another code.
type Code string

const (
	// NotAsWritten says that the resource does not mean what it says, because of another resource or
	// of the machine that would have to provide something: a missing delegate, an older rival, a
	// secret that cannot be used.
	NotAsWritten Code = "not-as-written"
	// LeftOut says that routers leave out a part of a Gateway, or of a rule on it, because another
	// resource took its place first.
	LeftOut Code = "left-out"
	// PatchUnapplied says that a patch of an EnvoyFilter is not applied as written, or not everywhere.
	PatchUnapplied Code = "patch-not-applied"
	// SecretDenied says that a connected proxy asks for the secret and is not given it.
	SecretDenied Code = "secret-denied"
	// KeysMissing says that discovery lacks the keys that the resource has tokens checked with.
	KeysMissing Code = "keys-missing"
	// Refused says that a connected proxy does without a listener, or goes on with an old one.
	Refused Code = "listener-refused"
)

// Problems lists the current problems, sorted by kind, namespace and name. It is not ok before the
// first mesh.
func (e *Engine) Problems() (all []Problem, ok bool) {
	m, all := e.ofProxies()
	if m == nil {
		return nil, false
	}
	return sorted(append(all, between(m)...)), true
}

// ProblemsSince lists the problems like Problems, unless nothing has happened since a turn that could
// make a difference to them: then news is false. It returns the turn to ask with the next time; 0 is
// for the first. To ask when there is nothing new costs next to nothing.
func (e *Engine) ProblemsSince(turn uint64) (all []Problem, now uint64, news bool) {
	now = e.presentTurn() // before the problems: what happens meanwhile is asked for again
	if now == turn {
		return nil, turn, false
	}
	all, ok := e.Problems()
	if !ok {
		return nil, turn, false
	}
	return all, now, true
}

func (e *Engine) presentTurn() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turn
}

// ofProxies lists the problems that depend on which proxies are connected, and returns the mesh
// that they are about.
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

// sorted sorts problems, and keeps one of each, however many proxies have it.
func sorted(all []Problem) []Problem {
	slices.SortFunc(all, func(a, b Problem) int { return cmp.Or(a.compare(b), cmp.Compare(a.At, b.At)) })
	return slices.CompactFunc(all, func(a, b Problem) bool { return a.compare(b) == 0 })
}

func (p Problem) compare(o Problem) int {
	return cmp.Or(cmp.Compare(p.Of.Kind.Name, o.Of.Kind.Name), cmp.Compare(p.Of.Namespace, o.Of.Namespace), cmp.Compare(p.Of.Name, o.Of.Name),
		cmp.Compare(p.Path, o.Path), cmp.Compare(p.Code, o.Code), cmp.Compare(p.Reason, o.Reason))
}

// reporter logs each problem once while it lasts, and again if it comes back. A metric counts what
// lasts.
type reporter struct {
	log      *slog.Logger
	message  string
	count    prometheus.Gauge
	reported map[mesh.Problem]bool
}

func newReporter(log *slog.Logger, metrics prometheus.Registerer, message string, gauge prometheus.GaugeOpts) *reporter {
	t := &reporter{log: log, message: message, count: prometheus.NewGauge(gauge)}
	metrics.MustRegister(t.count)
	return t
}

func (t *reporter) report(revision string, standing []Problem) {
	now := make(map[mesh.Problem]bool, len(standing))
	for _, p := range sorted(standing) {
		if now[p.Problem] = true; !t.reported[p.Problem] {
			t.log.Warn(t.message, "revision", revision, "resource", p.Of.String(), "path", p.Path, "at", p.At, "reason", p.Reason)
		}
	}
	t.reported = now
	t.count.Set(float64(len(now)))
}

// reporters are those for problems of the configuration.
type reporters struct{ between, conflicts, unpatched *reporter }

func newReporters(log *slog.Logger, metrics prometheus.Registerer) reporters {
	return reporters{
		between: newReporter(log, metrics, "a resource does not mean what it says", prometheus.GaugeOpts{
			Name: "pgmesh_discovery_problems",
			Help: "What is wrong between resources of the mesh that are each right by themselves; the log and /problems have each.",
		}),
		conflicts: newReporter(log, metrics, "routers leave out a part of a resource", prometheus.GaugeOpts{
			Name: "pgmesh_discovery_gateway_conflicts",
			Help: "Servers of Gateways, and routes on them, that routers leave out because others are there already; the log and /problems have each.",
		}),
		unpatched: newReporter(log, metrics, "a patch of an EnvoyFilter is not applied as it is written; everything else is", prometheus.GaugeOpts{
			Name: "pgmesh_discovery_patches_not_applied",
			Help: "Patches of EnvoyFilters that are not applied as they are written, or not everywhere; the log and /problems have each.",
		}),
	}
}

// reportClassProblems reports the problems that depend on which proxies are connected.
func (e *Engine) reportClassProblems() {
	e.reporters.conflicts.report(e.revision, conflicts(e.mesh, e.classes))
	e.reporters.unpatched.report(e.revision, unpatched(e.mesh, e.classes))
}
