package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

// session is one stream from one upstream.
type session struct {
	*Relay
	upstream string
	cancel   context.CancelCauseFunc
	client   *mcp.Client

	mesh    string // the mesh that is served
	resumed bool   // batches continue from what is served, instead of starting with everything

	source       publish.Source
	standingSeen bool        // the upstream has sent its standing
	gotBatch     bool        // the first batch has come
	staleTimer   *time.Timer // runs while the upstream has lost its own source
}

// errRestart asks Run to follow the same upstream again, from an empty state.
var errRestart = errors.New("follow it anew")

// follow follows an upstream until it is lost or must be left, and reports whether it delivered
// anything.
func (r *Relay) follow(ctx context.Context, upstream string) (delivered bool, err error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	s := &session{Relay: r, upstream: upstream, cancel: leave}
	mesh, held := r.publisher.Versions()
	if s.mesh = mesh; mesh == "" {
		held = nil // the versions may be of another mesh
	}
	s.resumed = held != nil
	s.client = mcp.New(mcp.Config{
		Targets: []string{upstream}, Name: "mcp-server", DialOptions: r.options.DialOptions, Log: r.log,
		Once: true, Held: held, Bodies: true, Standing: s.handleStanding,
	})
	silence := time.AfterFunc(r.options.SilenceTimeout, s.checkSilence)
	defer silence.Stop()
	err = s.client.Run(ctx, s.apply)
	s.watchStale(time.Time{})
	r.metrics.connected.WithLabelValues(upstream).Set(0)
	r.link.set(false)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return s.gotBatch, err
}

// checkSilence leaves an upstream that has not sent anything.
func (s *session) checkSilence() {
	if !s.client.Status().Connected {
		s.cancel(errSilence)
	}
}

// handleStanding processes what the upstream says of itself, which comes before its first batch.
func (s *session) handleStanding(told mcp.Standing) error {
	s.publisher.Alive()
	if s.loops(told.Path) {
		return errLoop
	}
	if err := s.accept(told.Mesh); err != nil {
		return err
	}
	s.standingSeen = true
	s.source = publish.Source{Name: publish.Upstream, Mesh: told.Mesh, Path: told.Path, Stale: told.Stale, Saved: told.Saved, Registries: registriesOf(told)}
	s.watchStale(told.Stale)
	s.logStale(told)
	if s.gotBatch {
		s.publisher.Stand(s.source)
	}
	return nil
}

// registriesOf are the registries of an upstream, as clients are told of them.
func registriesOf(told mcp.Standing) (all []publish.RegistryStanding) {
	for _, r := range told.Registries {
		all = append(all, publish.RegistryStanding(r))
	}
	return all
}

// logStale logs when an upstream loses its own source, and when it has it again.
func (s *session) logStale(told mcp.Standing) {
	switch stale := !told.Stale.IsZero(); {
	case stale && !s.stale:
		s.log.Warn("the upstream has lost its own source: what it serves may not be the newest", "upstream", s.upstream, "since", told.Stale, "saved", told.Saved)
	case !stale && s.stale:
		s.log.Info("the upstream serves the newest", "upstream", s.upstream)
	}
	s.stale = !told.Stale.IsZero()
}

// accept decides whether to follow a mesh.
func (s *session) accept(mesh string) error {
	if mesh == s.mesh || !s.publisher.Primed() {
		s.mesh = mesh
		delete(s.otherMeshes, s.upstream)
		return nil
	}
	if s.otherMeshes[s.upstream] = mesh; !s.allServe(mesh) {
		return fmt.Errorf("%w (%q, and %q is served)", errMesh, mesh, s.mesh)
	}
	s.log.Warn("every upstream serves another mesh than this server did until now: following that", "mesh", mesh, "before", s.mesh)
	s.publisher.Begin(publish.Source{Name: publish.Upstream, Mesh: mesh})
	return errRestart
}

// watchStale starts or stops the timer that leaves a stale upstream, if there is another.
func (s *session) watchStale(stale time.Time) {
	if s.staleTimer != nil {
		s.staleTimer.Stop()
		s.staleTimer = nil
	}
	if !stale.IsZero() && len(s.options.Upstreams) > 1 {
		s.staleTimer = time.AfterFunc(s.options.StaleTimeout, func() { s.cancel(errStale) })
	}
}

// apply publishes one batch.
func (s *session) apply(b kinds.Batch) error {
	if !s.standingSeen { // an upstream that sends no standing
		if err := s.handleStanding(mcp.Standing{}); err != nil {
			return err
		}
	}
	began, before := time.Now(), s.publisher.At().Revision
	at, err := s.position(b)
	if err != nil {
		return err
	}
	c, err := changes(b)
	if err != nil {
		return err
	}
	s.publisher.Begin(s.source)
	if s.resumed || s.gotBatch {
		s.publisher.Apply(c, at)
	} else {
		s.publisher.Replace(publish.Content{Resources: c.Upserts}, at)
	}
	if tell := s.options.Published; tell != nil && s.gotBatch && b.Mark != "" {
		tell(b, before, s.upstream, began)
	}
	if !s.gotBatch {
		s.gotBatch = true
		s.follows(s.upstream)
		s.metrics.connected.WithLabelValues(s.upstream).Set(1)
		s.link.set(true)
	}
	s.metrics.batches.Inc()
	return nil
}

// position returns the position of a batch: the upstream's own, if it has one.
func (s *session) position(b kinds.Batch) (publish.Position, error) {
	before := s.publisher.At()
	if b.Mark == "" {
		return publish.Position{Revision: before.Revision + 1, Mark: s.publisher.ID()}, nil
	}
	at := publish.Position{Revision: b.Revision, Mark: strings.TrimPrefix(b.Mark, strconv.FormatInt(b.Revision, 10)+".")}
	behind := at.Committed() != before.Committed() && at.Revision <= before.Revision
	if behind && !s.source.Stale.IsZero() && s.source.Mesh == s.mesh && s.publisher.Primed() {
		return at, fmt.Errorf("%w (revision %d, and %d is served)", errBehind, at.Revision, before.Revision)
	}
	return at, nil
}

// changes converts a batch into changes to publish.
func changes(b kinds.Batch) (publish.Changes, error) {
	c := publish.Changes{Upserts: map[*kinds.Kind][]*served.Resource{}, Removed: map[*kinds.Kind][]string{}, Committed: b.Committed}
	for _, change := range b.Changes {
		kind := change.Key.Kind
		if change.Resource == nil {
			c.Removed[kind] = append(c.Removed[kind], change.Key.FullName())
			continue
		}
		body := change.Body
		if b.Mark == "" { // the envelope may lack what clients need, such as a name and a version
			var err error
			if body, err = change.Resource.Any(change.Version); err != nil {
				return c, err
			}
		}
		c.Upserts[kind] = append(c.Upserts[kind], served.NewResource(change.Key.FullName(), strings.Clone(change.Version), body))
	}
	return c, nil
}
