// Package examine checks committed resources for mistakes that only a program can find, and reports
// them to the database, which lists them in mesh.problems. The admin API runs the same checks
// before it writes; SQL does not.
//
// Every server examines everything. All find the same, and the database keeps each finding once.
package examine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/re2"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/problems"
)

// source identifies these findings in the database.
const source = "envoy-filters"

// Examiner examines the EnvoyFilters of a store, and those VirtualServices that have regular
// expressions.
type Examiner struct {
	problems *problems.Store
	log      *slog.Logger

	mu      sync.Mutex
	waiting map[kinds.Key]*store.Resource // the newest version of each
	wake    chan struct{}                 // wakes Run; has room for one signal
}

// New returns an examiner that has nothing to examine yet.
func New(s *store.Store, log *slog.Logger) *Examiner {
	return &Examiner{problems: problems.New(s), log: log, waiting: map[kinds.Key]*store.Resource{}, wake: make(chan struct{}, 1)}
}

// See queues a resource for examination, in place of an earlier version of it. It does not block.
func (e *Examiner) See(r *store.Resource) {
	if !examinable(r) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[r.Key] = r
	select {
	case e.wake <- struct{}{}:
	default: // a signal is waiting already
	}
}

// examinable reports whether a resource needs examination. Few of the many VirtualServices have
// regular expressions.
func examinable(r *store.Resource) bool {
	if r.Key.Kind.Group != "networking.istio.io" {
		return false
	}
	return r.Key.Kind.Name == "EnvoyFilter" || r.Key.Kind.Name == "VirtualService" && (bytes.Contains(r.Spec, []byte(`"regex"`)) || bytes.Contains(r.Spec, []byte(`"uriRegexRewrite"`)))
}

// Run examines queued resources until the context ends. Findings that cannot be reported are
// reported once the database is back.
func (e *Examiner) Run(ctx context.Context) error {
	reporting := retry.Loop{
		Pauses: retry.Pauses{First: 100 * time.Millisecond, Longest: 30 * time.Second, Growth: 2}, Reason: e.unreported,
	}
	for {
		select {
		case <-e.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		seen := e.take()
		if err := reporting.Until(ctx, func() error { return e.report(ctx, seen) }); err != nil {
			return err
		}
	}
}

func (e *Examiner) unreported(err error, _ time.Duration) {
	if !store.Temporary(err) { // the feed logs that the database is away
		e.log.Error("cannot report what is wrong with resources; the server goes on trying", "error", err)
	}
}

func (e *Examiner) take() []*store.Resource {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := make([]*store.Resource, 0, len(e.waiting))
	for _, r := range e.waiting {
		seen = append(seen, r)
	}
	clear(e.waiting)
	return seen
}

func (e *Examiner) report(ctx context.Context, seen []*store.Resource) error {
	examined := make([]problems.Examined, 0, len(seen))
	for _, r := range seen {
		found, err := panics.Receive(func() ([]problems.Finding, error) { return findings(r), nil })
		if err != nil { // a panic, which is logged; nothing is reported of this resource
			continue
		}
		if len(found) == 0 && r.Key.Kind.Name == "VirtualService" {
			continue // findings about an earlier revision do not count any more
		}
		examined = append(examined, problems.Examined{Key: r.Key, Revision: r.Revision, Findings: found})
	}
	if len(examined) == 0 {
		return nil
	}
	return e.problems.Report(ctx, source, examined)
}

// findings returns what is wrong with a resource. The feed reports one that cannot be decoded.
func findings(r *store.Resource) []problems.Finding {
	message, err := r.Key.Kind.Decode(r.Spec)
	if err != nil {
		return nil
	}
	switch spec := message.(type) {
	case *networking.EnvoyFilter:
		return patchFindings(spec)
	case *networking.VirtualService:
		return expressionFindings(spec)
	default:
		return nil
	}
}

// maxFindings bounds the findings about the regular expressions of one resource.
const maxFindings = 20

// expressionFindings returns the regular expressions that Envoy would refuse. Discovery leaves them
// out.
func expressionFindings(spec *networking.VirtualService) (list []problems.Finding) {
	for i, route := range spec.GetHttp() {
		for _, p := range re2.InRoute(route) {
			if len(list) == maxFindings {
				return list
			}
			list = append(list, problems.Finding{
				Severity: "error", Code: "invalid-regex", Path: fmt.Sprintf("spec.http[%d].%s", i, p.Path), Message: p.Reason,
				Hint: "write it in the syntax of RE2 (https://github.com/google/re2/wiki/Syntax), for bytes; until then proxies leave out what it is in",
			})
		}
	}
	return list
}

// patchFindings returns what is wrong with the patches of an EnvoyFilter.
func patchFindings(spec *networking.EnvoyFilter) (list []problems.Finding) {
	_, wrong := envoy.Read(spec)
	for _, p := range wrong {
		f := problems.Finding{Path: p.Path, Message: p.Reason, Hint: p.Hint}
		switch p.Level {
		case envoy.Invalid:
			f.Severity, f.Code = "error", "invalid-patch"
		case envoy.Unknown:
			f.Severity, f.Code = "warning", "unknown-in-patch"
		case envoy.Idle:
			f.Severity, f.Code = "warning", "idle-patch"
		}
		list = append(list, f)
	}
	return list
}
