// Package examine looks at resources that were committed for what only a program can tell, and reports it to the database, where it is in
// mesh.problems. What comes through the admin API was examined before; what is written with SQL was not.
//
// Every server examines everything. They find the same, and the database keeps it once.
package examine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/panics"
	"github.com/pgmesh/pgmesh/internal/re2"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	"github.com/pgmesh/pgmesh/store"
)

// source names what is examined here in the database.
const source = "envoy-filters"

// Examiner examines the EnvoyFilters of a store, and the VirtualServices that have regular expressions.
type Examiner struct {
	store *store.Store
	log   *slog.Logger

	mu      sync.Mutex
	waiting map[kinds.Key]*store.Resource
	wake    chan struct{}
}

// New returns an examiner that has seen nothing yet.
func New(s *store.Store, log *slog.Logger) *Examiner {
	return &Examiner{store: s, log: log, waiting: map[kinds.Key]*store.Resource{}, wake: make(chan struct{}, 1)}
}

// See takes note of a resource as it stands now. It does not wait.
func (e *Examiner) See(r *store.Resource) {
	if !examinable(r) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[r.Key] = r
	select {
	case e.wake <- struct{}{}:
	default: // the last news is still waiting
	}
}

// examinable tells whether there is something to examine in a resource. Of the many VirtualServices few compare with regular expressions.
func examinable(r *store.Resource) bool {
	if r.Key.Kind.Group != "networking.istio.io" {
		return false
	}
	return r.Key.Kind.Name == "EnvoyFilter" || r.Key.Kind.Name == "VirtualService" && (bytes.Contains(r.Spec, []byte(`"regex"`)) || bytes.Contains(r.Spec, []byte(`"uriRegexRewrite"`)))
}

// Run examines what was seen until the context ends. What cannot be reported, since the database is away, is reported later.
func (e *Examiner) Run(ctx context.Context) error {
	retry := &backoff.ExponentialBackOff{
		InitialInterval: 100 * time.Millisecond, MaxInterval: 30 * time.Second, Multiplier: 2, RandomizationFactor: 0.5,
	}
	for lastError := ""; ; {
		select {
		case <-e.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		seen := e.take()
		for err := e.report(ctx, seen); err != nil; err = e.report(ctx, seen) {
			if ctx.Err() == nil && !store.Temporary(err) && err.Error() != lastError { // the feed tells of a database that is away
				lastError = err.Error()
				e.log.Error("cannot report what is wrong with resources; the server goes on trying", "error", err)
			}
			select {
			case <-time.After(retry.NextBackOff()):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		retry.Reset()
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
	examined := make([]store.Examined, 0, len(seen))
	for _, r := range seen {
		found, err := panics.Receive(func() ([]store.Finding, error) { return findings(r), nil })
		if err != nil { // which is in the log, and nothing is said of the resource
			continue
		}
		if len(found) == 0 && r.Key.Kind.Name == "VirtualService" {
			continue // what was found of an earlier revision counts no more
		}
		examined = append(examined, store.Examined{Key: r.Key, Revision: r.Revision, Findings: found})
	}
	if len(examined) == 0 {
		return nil
	}
	return e.store.ReportFindings(ctx, source, examined)
}

// findings are what is wrong with a resource. One that cannot be decoded is told of elsewhere.
func findings(r *store.Resource) []store.Finding {
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

// mostFindings bounds what one resource comes to in the database.
const maxFindings = 20

// ofExpressions are the regular expressions that Envoy refuses, and discovery therefore leaves out.
func expressionFindings(spec *networking.VirtualService) (list []store.Finding) {
	for i, route := range spec.GetHttp() {
		for _, p := range re2.InRoute(route) {
			if len(list) == maxFindings {
				return list
			}
			list = append(list, store.Finding{
				Severity: "error", Code: "invalid-regex", Path: fmt.Sprintf("spec.http[%d].%s", i, p.Path), Message: p.Reason,
				Hint: "write it in the syntax of RE2 (https://github.com/google/re2/wiki/Syntax), for bytes; until then proxies leave out what it is in",
			})
		}
	}
	return list
}

// ofPatches are what is wrong with the patches of an EnvoyFilter.
func patchFindings(spec *networking.EnvoyFilter) (list []store.Finding) {
	_, problems := envoy.Read(spec)
	for _, p := range problems {
		f := store.Finding{Path: p.Path, Message: p.Reason, Hint: p.Hint}
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
