package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/internal/wait"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
	"github.com/pgmesh/pgmesh/store"
)

const (
	// A batch that meets another transaction is tried again so often, each time after a little longer.
	attempts  = 3
	longPause = 50 * time.Millisecond

	// longestDetail is as much as people read of what a probe has to say. More would make a revision of each word that differs.
	longestDetail = 200
)

var (
	states = map[machinev1.Change_State]store.WorkloadState{
		machinev1.Change_STATE_HERE: store.WorkloadHere, machinev1.Change_STATE_GONE: store.WorkloadGone, machinev1.Change_STATE_LEFT: store.WorkloadLeft,
	}
	healths = map[machinev1.Health]string{machinev1.Health_HEALTH_HEALTHY: "healthy", machinev1.Health_HEALTH_UNHEALTHY: "unhealthy"}
)

func changesOf(list []*machinev1.Change) []store.WorkloadChange {
	changes := make([]store.WorkloadChange, len(list))
	for i, c := range list {
		s := c.GetService()
		health, known := healths[s.GetHealth()]
		if !known {
			health = "unknown"
		}
		changes[i] = store.WorkloadChange{
			Namespace: c.GetNamespace(), Group: s.GetGroup(), Machine: c.GetMachine(), ServiceAccount: c.GetServiceAccount(), Enrolment: c.GetEnrolment(),
			Since: c.GetSince(), Address: c.GetAddress(), Network: c.GetNetwork(), Locality: c.GetLocality(), Labels: c.GetLabels(),
			Ports: s.GetPorts(), ServiceLabels: s.GetLabels(), Weight: s.GetWeight(), Health: health, Detail: shortened(s.GetDetail()), State: states[c.GetState()],
		}
	}
	return changes
}

// shortened is a text in one line, of so many characters.
func shortened(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if letters := []rune(text); len(letters) > longestDetail {
		return string(letters[:longestDetail-1]) + "…"
	}
	return text
}

// register takes in changes, in one transaction. If the database does not take one, it takes the others in transactions of their own: no machine
// is to answer for another.
func (r *Registry) register(ctx context.Context, s *session, changes []store.WorkloadChange) ([]store.WorkloadOutcome, error) {
	outcomes, err := r.patiently(ctx, s, changes)
	switch {
	case err == nil:
		return outcomes, nil
	case !ofChange(err):
		return nil, err
	case len(changes) == 1:
		r.log.Warn("the database does not take what a machine is registered with", "namespace", changes[0].Namespace, "group", changes[0].Group, "machine", changes[0].Machine, "error", err)
		return []store.WorkloadOutcome{{Refused: refusalFor(err)}}, nil
	}
	half := len(changes) / 2
	first, err := r.register(ctx, s, changes[:half])
	if err != nil {
		return nil, err
	}
	second, err := r.register(ctx, s, changes[half:])
	return append(first, second...), err
}

// patiently tries again what met another transaction.
func (r *Registry) patiently(ctx context.Context, s *session, changes []store.WorkloadChange) (outcomes []store.WorkloadOutcome, err error) {
	for i := range attempts {
		s.number++
		var rows int64
		outcomes, rows, err = r.store.RegisterWorkloads(ctx, r.keeper, s.id, s.number, changes, s.author)
		if err == nil {
			s.mu.Lock()
			s.taken = s.number
			s.mu.Unlock()
			r.metrics.rows.Add(float64(rows))
			return outcomes, nil
		}
		if !errors.Is(err, store.ErrConflict) || !wait.For(ctx, time.Duration(i+1)*rand.N(longPause)) {
			return nil, err
		}
	}
	return nil, err
}

// ofChange tells whether it may be for one of the changes that the database took none.
func ofChange(err error) bool {
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

// told is what a discovery is told of outcomes.
func (r *Registry) told(outcomes []store.WorkloadOutcome) []*machinev1.Outcome {
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
