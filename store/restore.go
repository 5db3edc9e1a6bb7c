package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Restoring asks to set resources back.
type Restoring struct {
	Apply     // its origin and options; its resources do not count
	Selection // labels and Where do not count
	To        Moment
}

// Restored is the result: the resources that changed, and how.
type Restored struct {
	Applied
	Keys []kinds.Key
}

const restoreQuery = `SELECT operation, api_group, kind, namespace, name FROM mesh.restore(%s, $2, $3, $4)`

// Restore sets resources back to a moment, in a new revision, or does nothing.
func (s *Store) Restore(ctx context.Context, r Restoring) (Restored, error) {
	query, to := fmt.Sprintf(restoreQuery, "$1::bigint"), any(r.To.Revision)
	if r.To.Revision == nil {
		query, to = fmt.Sprintf(restoreQuery, "$1::timestamptz"), r.To.time()
	}
	done, err := s.changeBy(ctx, r.Apply, func(k key) error {
		if !r.isOf(k.group, k.kind) {
			return OfCaller(namesake(k))
		}
		return nil
	}, query, to, r.kindNames(), r.Namespaces, r.Names)
	return done, Explain("restoring resources", err)
}

// changeBy runs a function of the database that changes resources and returns which. If refuse returns an
// error for one of these, it is rolled back.
func (s *Store) changeBy(ctx context.Context, a Apply, refuse func(key) error, query string, args ...any) (done Restored, err error) {
	outcomes := []Outcome{}
	done.Applied, err = s.transact(ctx, a, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		var operation Operation
		var k key
		_, err = pgx.ForEachRow(rows, []any{&operation, &k.group, &k.kind, &k.namespace, &k.name}, func() error {
			if refuse != nil {
				if err := refuse(k); err != nil {
					return err
				}
			}
			if known, ok := s.resolve(k, 0); ok {
				done.Keys, outcomes = append(done.Keys, known), append(outcomes, restoredAs[operation])
			}
			return nil
		})
		return err
	})
	done.Outcomes = outcomes
	return done, err
}

var restoredAs = map[Operation]Outcome{Create: Created, Update: Configured, Delete: Deleted}

// namesake returns an error for a resource that was not selected: the database selects by the names of
// kinds alone, which several groups may have.
func namesake(k key) error {
	return &RefusedError{
		Reason: fmt.Sprintf("this would also restore %s.%s %s/%s, for a kind is chosen by its name and two groups have a %[1]s", k.kind, k.group, k.namespace, k.name),
		Advice: "choose by namespaces and names too, or choose both kinds",
	}
}

// RevertOutcome is what happened to a resource when a revision was reverted: it was reverted, already was
// as before, or was left in a conflict because ChangedBy has changed it.
type RevertOutcome struct {
	Key       kinds.Key
	Outcome   string
	ChangedBy Revision
}

const revertQuery = "SELECT outcome, api_group, kind, namespace, name, coalesce(changed_by, 0) FROM mesh.revert($1)"

// Revert takes back one revision, in a new revision. Only the Apply's origin and options count.
func (s *Store) Revert(ctx context.Context, revision Revision, a Apply) (Applied, []RevertOutcome, error) {
	var outcomes []RevertOutcome
	applied, err := s.transact(ctx, a, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, revertQuery, revision)
		if err != nil {
			return err
		}
		var o RevertOutcome
		var k key
		_, err = pgx.ForEachRow(rows, []any{&o.Outcome, &k.group, &k.kind, &k.namespace, &k.name, &o.ChangedBy}, func() error {
			if known, ok := s.resolve(k, 0); ok {
				o.Key = known
				outcomes = append(outcomes, o)
			}
			return nil
		})
		return err
	})
	return applied, outcomes, Explain(fmt.Sprintf("reverting revision %d", revision), err)
}
