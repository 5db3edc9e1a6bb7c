package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Restoring asks to set resources back.
type Restoring struct {
	resources.Apply     // its origin and options; its resources do not count
	resources.Selection // labels and Where do not count
	To                  store.Moment
}

// Restore sets resources back to a moment, in a new revision, or does nothing.
func (s *Store) Restore(ctx context.Context, r Restoring) (resources.Called, error) {
	query, to := sql.RestoreRevision, any(r.To.Revision)
	if r.To.Revision == nil {
		query, to = sql.RestoreTime, store.NullTime(r.To.Time)
	}
	done, err := s.resources.Call(ctx, r.Apply, func(k rows.Key) error {
		if !r.Has(k.Group, k.Kind) {
			return store.OfCaller(namesake(k))
		}
		return nil
	}, query, to, r.KindNames(), r.Namespaces, r.Names)
	return done, store.Explain("restoring resources", err)
}

// namesake returns an error for a resource that was not selected: the database selects by the names
// of kinds alone, which several groups may have.
func namesake(k rows.Key) error {
	return &store.RefusedError{
		Reason: fmt.Sprintf("this would also restore %s.%s %s/%s, for a kind is chosen by its name and two groups have a %[1]s", k.Kind, k.Group, k.Namespace, k.Name),
		Advice: "choose by namespaces and names too, or choose both kinds",
	}
}

// The outcomes for a resource that was left as it is.
const (
	Conflict    = "conflict"     // it was changed since
	UnknownKind = "unknown_kind" // it is gone, and no program knows its kind any more
)

// RevertOutcome is what happened to a resource when a revision was reverted: it was reverted,
// already was as before, or was left, in a conflict because ChangedBy has changed it. Of a kind that this
// program does not know only the name and the group are known.
type RevertOutcome struct {
	Key       kinds.Key
	Outcome   string
	ChangedBy store.Revision
}

// Revert takes back one revision, in a new revision. Only the Apply's origin and options count. If all of it is wanted or nothing, a
// conflict is a resources.ChangedError, and what is of an unknown kind a store.RefusedError.
func (s *Store) Revert(ctx context.Context, revision store.Revision, whole bool, a resources.Apply) (resources.Applied, []RevertOutcome, error) {
	var outcomes []RevertOutcome
	applied, err := s.resources.Transact(ctx, a, func(tx pgx.Tx) error {
		reverted, err := tx.Query(ctx, sql.Revert, revision)
		if err != nil {
			return err
		}
		var o RevertOutcome
		var k rows.Key
		_, err = pgx.ForEachRow(reverted, slices.Concat([]any{&o.Outcome}, k.Targets(), []any{&o.ChangedBy}), func() error {
			var known bool
			if o.Key, known = k.Known(s.db, 0); !known {
				o.Key = kinds.Key{Kind: &kinds.Kind{Group: k.Group, Name: k.Kind}, Namespace: k.Namespace, Name: k.Name}
			}
			outcomes = append(outcomes, o)
			return nil
		})
		if err != nil || !whole {
			return err
		}
		return conflicts(ctx, tx, revision, outcomes)
	})
	return applied, outcomes, store.Explain(fmt.Sprintf("reverting revision %d", revision), err)
}

// unknownKinds returns an error if a resource cannot be made again that a revision has deleted.
func unknownKinds(revision store.Revision, outcomes []RevertOutcome) error {
	var names []string
	for _, o := range outcomes {
		if o.Outcome == UnknownKind {
			names = append(names, o.Key.String())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &store.RefusedError{
		Reason: fmt.Sprintf("nothing of revision %d was taken back, for no program knows the kind any more of %s", revision, strings.Join(names, ", ")),
		Advice: fmt.Sprintf("mcp-client revert %d --partial takes back the others", revision),
	}
}

// conflicts returns an error for each resource that stands in the way of taking back a revision.
func conflicts(ctx context.Context, tx pgx.Tx, revision store.Revision, outcomes []RevertOutcome) error {
	var changed []error
	if err := unknownKinds(revision, outcomes); err != nil {
		return store.OfCaller(err)
	}
	for _, o := range outcomes {
		if o.Outcome != Conflict {
			continue
		}
		one := &resources.ChangedError{Expected: resources.Expected{Key: o.Key, Revision: revision}, Revision: o.ChangedBy}
		err := tx.QueryRow(ctx, sql.Changer, o.ChangedBy, o.Key.Kind.Name, o.Key.Kind.Group, o.Key.Namespace, o.Key.Name).
			Scan(&one.Author, &one.Application, &one.Message, &one.Time, &one.Absent)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) { // whoever is changing it this very moment has no revision
			return err
		}
		changed = append(changed, one)
	}
	if len(changed) == 0 {
		return nil
	}
	return store.OfCaller(errors.Join(changed...))
}
