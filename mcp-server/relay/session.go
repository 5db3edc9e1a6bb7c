package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

// session is one stream from one upstream.
type session struct {
	*Relay
	upstream string
	leave    context.CancelCauseFunc
	client   *mcp.Client

	mesh string // of what is served
	held bool   // batches lead on from what is served, and do not begin with everything

	source    publish.Source
	heard     bool        // what the upstream says of itself
	delivered bool        // its first batch
	wait      *time.Timer // for an upstream that has lost its own source
}

// errAnew asks for the same upstream once more, with nothing held.
var errAnew = errors.New("follow it anew")

// follow follows an upstream until it is lost or not to be followed, and tells whether it gave anything.
func (r *Relay) follow(ctx context.Context, upstream string) (delivered bool, err error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	s := &session{Relay: r, upstream: upstream, leave: leave}
	mesh, held := r.publisher.Held()
	if s.mesh = mesh; mesh == "" {
		held = nil // it is not known whether the upstream's versions are those
	}
	s.held = held != nil
	s.client = mcp.New(mcp.Config{
		Targets: []string{upstream}, Name: "mcp-server", DialOptions: r.options.DialOptions, Log: r.log,
		Once: true, Held: held, Bodies: true, Standing: s.stand,
	})
	silence := time.AfterFunc(r.options.Silence, s.silent)
	defer silence.Stop()
	err = s.client.Run(ctx, s.apply)
	s.settle(time.Time{})
	r.metrics.connected.WithLabelValues(upstream).Set(0)
	r.link.set(false)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return s.delivered, err
}

// silent leaves an upstream that has not said anything.
func (s *session) silent() {
	if !s.client.Status().Connected {
		s.leave(errSilence)
	}
}

// stand takes in what the upstream says of itself, which comes before its first batch.
func (s *session) stand(told mcp.Standing) error {
	s.publisher.Sign()
	if s.loops(told.Path) {
		return errLoop
	}
	if err := s.accept(told.Mesh); err != nil {
		return err
	}
	s.heard = true
	s.source = publish.Source{Name: publish.Upstream, Mesh: told.Mesh, Path: told.Path, Stale: told.Stale, Saved: told.Saved}
	s.settle(told.Stale)
	s.tell(told)
	if s.delivered {
		s.publisher.Stand(s.source)
	}
	return nil
}

// tell logs that an upstream has lost its own source, or has it again.
func (s *session) tell(told mcp.Standing) {
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
		delete(s.strangers, s.upstream)
		return nil
	}
	if s.strangers[s.upstream] = mesh; !s.agreed(mesh) {
		return fmt.Errorf("%w (%q, and %q is served)", errMesh, mesh, s.mesh)
	}
	s.log.Warn("every upstream serves another mesh than this server did until now: following that", "mesh", mesh, "before", s.mesh)
	s.publisher.Begin(publish.Source{Name: publish.Upstream, Mesh: mesh})
	return errAnew
}

// settle has an upstream left that does not recover, if there is another.
func (s *session) settle(stale time.Time) {
	if s.wait != nil {
		s.wait.Stop()
		s.wait = nil
	}
	if !stale.IsZero() && len(s.options.Upstreams) > 1 {
		s.wait = time.AfterFunc(s.options.Stale, func() { s.leave(errStale) })
	}
}

// apply publishes one batch.
func (s *session) apply(b mcp.Batch) error {
	if !s.heard { // it is not one that tells
		if err := s.stand(mcp.Standing{}); err != nil {
			return err
		}
	}
	at, err := s.position(b)
	if err != nil {
		return err
	}
	c, err := changes(b)
	if err != nil {
		return err
	}
	s.publisher.Begin(s.source)
	if s.held || s.delivered {
		s.publisher.Apply(c, at)
	} else {
		s.publisher.Replace(publish.Content{Resources: c.Upserts}, at)
	}
	if !s.delivered {
		s.delivered = true
		s.follows(s.upstream)
		s.metrics.connected.WithLabelValues(s.upstream).Set(1)
		s.link.set(true)
	}
	s.metrics.batches.Inc()
	return nil
}

// position is that of a batch: the upstream's own, if it has any.
func (s *session) position(b mcp.Batch) (publish.Position, error) {
	before := s.publisher.At()
	if b.Mark == "" {
		return publish.Position{Revision: before.Revision + 1, Mark: s.publisher.ID()}, nil
	}
	at := publish.Position{Revision: b.Revision, Mark: strings.TrimPrefix(b.Mark, strconv.FormatInt(b.Revision, 10)+".")}
	behind := at != before && at.Revision <= before.Revision
	if behind && !s.source.Stale.IsZero() && s.source.Mesh == s.mesh && s.publisher.Primed() {
		return at, fmt.Errorf("%w (revision %d, and %d is served)", errBehind, at.Revision, before.Revision)
	}
	return at, nil
}

// changes are those of a batch, in the form in which they are served.
func changes(b mcp.Batch) (publish.Changes, error) {
	c := publish.Changes{Upserts: map[*kinds.Kind][]*ads.Resource{}, Removed: map[*kinds.Kind][]string{}, Committed: b.Committed}
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
		c.Upserts[kind] = append(c.Upserts[kind], ads.NewResource(change.Key.FullName(), strings.Clone(change.Version), body))
	}
	return c, nil
}
