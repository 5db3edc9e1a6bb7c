package truth_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// newcomerTime is how long a discovery does not report a proxy that comes with nothing and runs
// nothing.
const newcomerTime = 2 * time.Second

// quiet lets everything come to rest, and returns how long it took then until all that the database
// says was exact.
func (m *mesh) quiet(o *observer, w *writer, within time.Duration) time.Duration {
	m.t.Helper()
	for _, p := range m.members {
		if p.now().way == late {
			p.behave(refusing) // by then it has refused
		}
	}
	w.write(m.t.Context(), m.marks...) // so that every proxy has something new
	var rest time.Time
	poll.Within(m.t, time.Minute, func(ctx context.Context) (err error) {
		rest, err = o.atRest(ctx)
		return err
	})
	poll.Within(m.t, time.Until(rest.Add(within)), func(ctx context.Context) error { return o.exact(ctx) })
	return max(0, time.Since(rest))
}

// atRest returns since when no proxy has anything to do, or an error if that is not so yet.
func (o *observer) atRest(ctx context.Context) (rest time.Time, err error) {
	r, err := o.read(ctx)
	if err != nil {
		return rest, err
	}
	for _, s := range r.states {
		last := s.last()
		if !s.here {
			rest = later(rest, last.ended)
			continue
		}
		rest = later(rest, last.accepted)
		switch lack := o.chronicle.lacks(o.mesh.marks, s.namespace, r.newest, last.has); {
		case !last.ended.IsZero() || last.discovery == "":
			return rest, fmt.Errorf("%s is not connected", s)
		case s.way == silent:
			rest = later(rest, last.began.Add(newcomerTime))
		case lack != "" && (s.way != refusing || !strings.HasPrefix(lack, thorn+" ")):
			return rest, fmt.Errorf("%s lacks %s", s, lack)
		}
	}
	return rest, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// exact returns an error if what the database says is not exactly so.
func (o *observer) exact(ctx context.Context) error {
	r, err := o.read(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	for _, s := range r.states {
		p, shown := r.rows[s.id]
		if err := s.exact(p, shown, r.newest); err != nil {
			wrong = append(wrong, fmt.Errorf("%w: %s is shown as %s; the newest is %d", err, s, p, r.newest))
		}
		delete(r.rows, s.id)
	}
	for _, p := range r.rows {
		wrong = append(wrong, fmt.Errorf("nobody is %s of %s", p.Proxy, p))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d rows are wrong, such as %w", len(wrong), len(r.states), errors.Join(wrong[:min(3, len(wrong))]...))
	}
	return o.viewsAgree(ctx, r.states)
}

// exact returns an error if a row is not exactly so.
func (s state) exact(p row, shown bool, newest int64) error {
	if !shown {
		if s.here {
			return errors.New("a connected proxy is not shown")
		}
		return nil // it left before it was reported, or long ago
	}
	wanted := map[string][]string{accepting: {"synced"}, slow: {"synced"}, refusing: {"refused"}, silent: {"sending", "silent", "refused"}}[s.way]
	of, known := s.of(p)
	switch {
	case !s.here:
		wanted = []string{"away"}
	case !known || !of.began.Equal(s.last().began):
		return errors.New("it is not this stream")
	}
	return p.is(wanted, newest)
}

// is returns an error if a row is in none of these states, or not at the revisions that belong to
// it. A silent proxy may have refused something before.
func (p row) is(wanted []string, newest int64) error {
	switch {
	case !slices.Contains(wanted, p.State):
		return fmt.Errorf("not %s", strings.Join(wanted, " or "))
	case p.State == "synced" && (p.Runs != newest || p.Sent != newest || p.Refused > 0):
		return errors.New("not at the newest revision")
	case p.State == "refused" && (p.Runs >= newest || p.Sent > newest || p.Refused == 0):
		return errors.New("not refusing a resource")
	case len(wanted) == 1 && p.State == "refused" && (p.Sent != newest || p.Refused != 1):
		return errors.New("not refusing one resource of the newest revision")
	case p.State != "away" && p.Gone:
		return errors.New("not here")
	case p.Server == "":
		return errors.New("not by a server")
	}
	return nil
}
