package registry

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/machines"
)

const (
	// maxAttempts is how often a batch that conflicts with another transaction is tried.
	maxAttempts = 3

	// maxDetailLength is the most characters kept of a probe's message: as much as people read. A
	// longer text would make more revisions, since each difference is one.
	maxDetailLength = 200
)

var (
	states = map[machinev1.Change_State]machines.State{
		machinev1.Change_STATE_HERE: machines.Here, machinev1.Change_STATE_GONE: machines.Gone, machinev1.Change_STATE_LEFT: machines.Left,
	}
	healths = map[machinev1.Health]string{machinev1.Health_HEALTH_HEALTHY: "healthy", machinev1.Health_HEALTH_UNHEALTHY: "unhealthy", machinev1.Health_HEALTH_DRAINING: "draining"}
)

func changesOf(list []*machinev1.Change) []machines.Change {
	changes := make([]machines.Change, len(list))
	for i, c := range list {
		s := c.GetService()
		health, known := healths[s.GetHealth()]
		if !known {
			health = "unknown"
		}
		changes[i] = machines.Change{
			Namespace: c.GetNamespace(), Group: s.GetGroup(), Machine: c.GetMachine(), ServiceAccount: c.GetServiceAccount(), Enrolment: c.GetEnrolment(),
			Since: c.GetSince(), Address: c.GetAddress(), Network: c.GetNetwork(), Locality: c.GetLocality(), Labels: c.GetLabels(),
			Ports: s.GetPorts(), ServiceLabels: s.GetLabels(), Weight: s.GetWeight(), Health: health, Detail: truncate(s.GetDetail()), State: states[c.GetState()],
		}
	}
	return changes
}

// truncate returns a text on one line, of at most maxDetailLength characters.
func truncate(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if letters := []rune(text); len(letters) > maxDetailLength {
		return string(letters[:maxDetailLength-1]) + "…"
	}
	return text
}

// register registers changes in one transaction. If the database refuses it, register splits the
// changes and tries each half: one machine's mistake must not affect the others.
func (r *Registry) register(ctx context.Context, s *session, changes []machines.Change) ([]machines.Outcome, error) {
	outcomes, err := r.registerWithRetry(ctx, s, changes)
	switch {
	case err == nil:
		return outcomes, nil
	case !causedByChange(err):
		return nil, err
	case len(changes) == 1:
		r.log.Warn("the database does not take what a machine is registered with", "namespace", changes[0].Namespace, "workload_group", changes[0].Group, "machine", changes[0].Machine, "error", err)
		return []machines.Outcome{{Refused: refusalFor(err)}}, nil
	}
	half := len(changes) / 2
	first, err := r.register(ctx, s, changes[:half])
	if err != nil {
		return nil, err
	}
	second, err := r.register(ctx, s, changes[half:])
	return append(first, second...), err
}

// registerWithRetry registers changes, again if they conflict with another transaction.
func (r *Registry) registerWithRetry(ctx context.Context, s *session, changes []machines.Change) (outcomes []machines.Outcome, err error) {
	conflicts := retry.Loop{Pauses: retry.Pauses{First: 25 * time.Millisecond, Longest: 50 * time.Millisecond, Growth: 2, Jitter: 1}, Attempts: maxAttempts}
	return outcomes, conflicts.Until(ctx, func() error {
		s.number++
		var rows int64
		outcomes, rows, err = r.machines.Register(ctx, r.keeper, s.id, s.number, changes, s.author)
		switch {
		case errors.Is(err, store.ErrConflict):
			return err
		case err != nil:
			return retry.Stop(err)
		}
		s.mu.Lock()
		s.committed = s.number
		s.mu.Unlock()
		r.metrics.rows.Add(float64(rows))
		return nil
	})
}

// causedByChange reports whether the database may have refused a transaction because of one of its
// changes.
func causedByChange(err error) bool {
	if errors.Is(err, store.ErrConflict) {
		return true
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pg.Code[:2] {
	case "22", "23", "54", "P0", "MS": // data, constraints, limits, what functions raise
		return true
	}
	return false
}

func refusalFor(err error) string {
	if errors.Is(err, store.ErrConflict) {
		return "another transaction has its WorkloadEntry or its WorkloadGroup in hand, and does not end: it is tried again"
	}
	return "the database does not take it: " + err.Error()
}

// outcomesOf converts outcomes into the message, and counts them.
func (r *Registry) outcomesOf(outcomes []machines.Outcome) []*machinev1.Outcome {
	list := make([]*machinev1.Outcome, len(outcomes))
	for i, o := range outcomes {
		list[i] = &machinev1.Outcome{Entry: o.Entry, Refused: o.Refused, Superseded: o.Superseded}
		switch {
		case o.Superseded:
			r.metrics.changes.WithLabelValues("superseded").Inc()
		case o.Refused != "":
			r.metrics.changes.WithLabelValues("refused").Inc()
		default:
			r.metrics.changes.WithLabelValues("taken").Inc()
		}
	}
	return list
}
