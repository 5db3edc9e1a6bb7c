package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Restoring asks that resources become what they were.
type Restoring struct {
	Apply     // says where it comes from; its resources do not count
	Selection // labels and Where do not count
	To        Moment
}

// Restored is what came of it: the resources that changed, and what became of each.
type Restored struct {
	Applied
	Keys []kinds.Key
}

const restoreQuery = `SELECT operation, api_group, kind, namespace, name FROM mesh.restore(%s, $2, $3, $4)`

// Restore makes resources what they were, as a new revision, or does nothing.
func (s *Store) Restore(ctx context.Context, r Restoring) (Restored, error) {
	query, to := fmt.Sprintf(restoreQuery, "$1::bigint"), any(r.To.Revision)
	if r.To.Revision == nil {
		query, to = fmt.Sprintf(restoreQuery, "$1::timestamptz"), r.To.time()
	}
	done, err := s.changeBy(ctx, r.Apply, func(k key) error {
		if !r.isOf(k.group, k.kind) {
			return callerError{namesake(k)}
		}
		return nil
	}, query, to, r.kindNames(), r.Namespaces, r.Names)
	return done, explain("restoring resources", err)
}

// changeBy makes a change by a function of the database that tells what it changed. It is given up if refuse refuses one of the resources.
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

// namesake is a resource that would be restored as well, since the database chooses by the names of kinds alone.
func namesake(k key) error {
	return &RefusedError{
		Reason: fmt.Sprintf("this would also restore %s.%s %s/%s, for a kind is chosen by its name and two groups have a %[1]s", k.kind, k.group, k.namespace, k.name),
		Advice: "choose by namespaces and names too, or choose both kinds",
	}
}

// RevertOutcome is what became of a resource when a revision was reverted: it was reverted; is unchanged, since it is again what it
// was before; or is left as it is in a conflict, since ChangedBy has changed it.
type RevertOutcome struct {
	Key       kinds.Key
	Outcome   string
	ChangedBy Revision
}

const revertQuery = "SELECT outcome, api_group, kind, namespace, name, coalesce(changed_by, 0) FROM mesh.revert($1)"

// Revert takes one revision back, as a new revision. Of the Apply only what it says of itself counts.
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
	return applied, outcomes, explain(fmt.Sprintf("reverting revision %d", revision), err)
}
