package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
)

// What writing may take of a cluster: so many writes a second, so many at once after a pause, and so
// many under way.
const (
	writesSecond = 500
	writesBurst  = 1000
	mostUnderway = 32
)

const (
	// conflictPause is the first pause of an object that somebody else has changed meanwhile.
	conflictPause = 50 * time.Millisecond
	mostPause     = 5 * time.Second
	// repeatPause is the first pause of an object whose status somebody else has changed since.
	repeatPause = time.Second
	mostRepeat  = time.Minute
)

// WritesStatuses implements registry.StatusWriter.
func (r *Registry) WritesStatuses() bool { return r.statuses != nil }

// Writes implements registry.StatusWriter.
func (r *Registry) Writes() registry.Writes { return r.statuses.writes() }

// WriteStatuses implements registry.StatusWriter.
func (r *Registry) WriteStatuses(ctx context.Context, from <-chan []registry.Status) error {
	transport := client.NewTransport(r.access, r.patience)
	defer transport.CloseIdleConnections()
	w := &writer{statuses: r.statuses, client: &client.Client{Access: r.access, Transport: transport, Patience: r.patience}, pace: rate.NewLimiter(writesSecond, writesBurst)}
	w.begin()
	defer w.end()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.take(ctx, from) })
	g.Go(func() error { return w.writeAll(ctx) })
	return g.Wait()
}

// writer writes what is due.
type writer struct {
	*statuses

	client *client.Client
	pace   *rate.Limiter
}

func (w *writer) take(ctx context.Context, from <-chan []registry.Status) error {
	for {
		select {
		case all := <-from:
			w.want(all)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// writeAll writes what is due, several at once.
func (w *writer) writeAll(ctx context.Context) error {
	var underway errgroup.Group
	underway.SetLimit(mostUnderway)
	defer func() { _ = underway.Wait() }()
	for {
		o, at := w.next(time.Now())
		if o == nil {
			if err := w.untilDue(ctx, at); err != nil {
				return err
			}
			continue
		}
		if err := w.pace.Wait(ctx); err != nil {
			return err
		}
		underway.Go(func() error {
			w.write(ctx, o)
			return nil
		})
	}
}

// untilDue waits until something new is due, or until a time, if there is one.
func (w *writer) untilDue(ctx context.Context, at time.Time) error {
	var timer <-chan time.Time
	if !at.IsZero() {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-w.wake:
	case <-timer:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// change is what is written to an object. The version has it refused if the object has changed.
type change struct {
	path, version, digest string
	body                  []byte
}

// write writes the status of an object, as it is to be now.
func (w *writer) write(ctx context.Context, o *object) {
	c, some := w.prepare(o)
	if !some {
		return
	}
	var now configObject
	err := w.client.Patch(ctx, c.path, c.body, &now)
	w.mu.Lock()
	defer w.mu.Unlock()
	refusal, _ := errors.AsType[*client.Refusal](err)
	switch {
	case o.gone || ctx.Err() != nil || refusal != nil && refusal.Missing():
	case err == nil:
		w.done(o, c, &now)
	case refusal != nil && refusal.Conflict():
		w.counts.Conflicts++
		o.after = time.Now().Add(min(conflictPause<<min(o.attempts, 10), mostPause))
		o.attempts++
	case refusal != nil && refusal.Invalid():
		w.counts.Failed++
		o.after = time.Now().Add(mostRepeat)
		w.log.Warn("the cluster does not take the status of an object; the server tries again in a minute", "resource", o.key.String(), "error", err)
	default:
		w.counts.Failed++
		w.refused(o.key, err, refusal)
	}
	w.queue(o)
}

// prepare returns the change of an object; none if it needs none by now, or has to wait because others
// change our conditions again and again.
func (w *writer) prepare(o *object) (c change, some bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.queued = false
	now := time.Now()
	kind := w.kinds[o.key.Kind]
	status, digest, differs := o.compare(now)
	if !differs || o.gone {
		o.since = time.Time{}
		return c, false
	}
	if digest != o.last {
		o.repeats = 0
	} else if ready := o.wrote.Add(min(repeatPause<<min(o.repeats, 10), mostRepeat)); ready.After(now) {
		o.after = ready
		w.queue(o)
		return c, false
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.version}, "status": status})
	if err != nil {
		return c, false
	}
	return change{path: statusPath(o.key, kind.version), version: o.version, digest: digest, body: body}, true
}

func statusPath(k kinds.Key, version string) string {
	scope := ""
	if k.Namespace != "" {
		scope = "namespaces/" + k.Namespace + "/"
	}
	return fmt.Sprintf("/apis/%s/%s/%s%s/%s/status", k.Kind.Group, version, scope, k.Kind.Plural, k.Name)
}

// done notes that a change was made. What the object has become meanwhile, the watch has told.
func (w *writer) done(o *object, c change, now *configObject) {
	w.counts.Done++
	if o.version == c.version {
		o.version, o.there = now.Metadata.ResourceVersion, now.Status
	}
	if c.digest == o.last {
		o.repeats++
	}
	o.last, o.answer, o.wrote = c.digest, now.Status.text(), time.Now()
	o.attempts, o.after, o.since = 0, time.Time{}, time.Time{}
	if kind := w.kinds[o.key.Kind]; kind.reason != "" {
		kind.reason = ""
		kind.pauses.Reset()
		w.log.Info("statuses can be written again", "kind", kindName(o.key.Kind))
	}
}

// refused has a kind wait that the cluster takes nothing of. The reason is told once.
func (w *writer) refused(k kinds.Key, err error, refusal *client.Refusal) {
	kind, now := w.kinds[k.Kind], time.Now()
	if kind.after.After(now) { // another object of the kind was told the same
		return
	}
	pause := kind.pauses.Next()
	if refusal != nil {
		pause = max(pause, min(refusal.After, time.Minute))
	}
	kind.after = now.Add(pause)
	reason, advice := err.Error(), "the server goes on trying"
	if refusal != nil && refusal.Forbidden() {
		reason = "forbidden" // each object is named in what the cluster says
		advice = fmt.Sprintf("grant patch of %s/status in the API group %s, or leave status=true out of the URL", k.Kind.Plural, k.Kind.Group)
	}
	if kind.reason == reason {
		return
	}
	kind.reason = reason
	w.log.Warn("what became of resources cannot be written to the cluster", "kind", kindName(k.Kind), "hint", advice, "error", err)
}

var _ registry.StatusWriter = (*Registry)(nil)
