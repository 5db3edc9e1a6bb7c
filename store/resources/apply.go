package resources

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/problems"
)

// Apply is a transaction to make.
type Apply struct {
	Upserts     []Upsert
	Deletes     []kinds.Key
	Expected    []Expected // if one is not met, nothing is done
	Author      string     // on whose behalf; empty means the database role
	Application string     // the program; empty means the Store's own
	Message     string
	Limited     bool              // whether the quotas of namespaces hold
	Reading     *problems.Reading // the namespaces that warnings and refusals may name
	DryRun      bool              // roll the transaction back
	Confirm     time.Duration     // revert it unless confirmed within this time; 0 keeps it
}

// Upsert is a resource to create or replace.
type Upsert struct {
	Key                 kinds.Key
	Labels, Annotations map[string]string
	Spec                json.RawMessage
}

// Applied is the result of an Apply. Revision is 0 if nothing changed, or in a dry run.
type Applied struct {
	Revision store.Revision
	Outcomes []Outcome          // of the upserts, then of the deletes, in their order
	Warnings []problems.Problem // problems that the change causes, or would cause
	Omitted  int                // how many more warnings there are
	Deadline time.Time          // when it is reverted unless confirmed; zero if it stays
}

// Outcome is what happened to one resource.
type Outcome string

// The outcomes.
const (
	Created    Outcome = "created"
	Configured Outcome = "configured"
	Unchanged  Outcome = "unchanged"
	Deleted    Outcome = "deleted"
)

// Apply does everything in one transaction, or nothing. It returns what the database finds wrong
// with resources as kinds.Errors, ErrNotFound for deleting a missing resource, and ErrChanged for
// an unmet expectation.
func (s *Store) Apply(ctx context.Context, a Apply) (Applied, error) {
	if err := a.refuseDuplicates(); err != nil {
		return Applied{}, err
	}
	applied, err := s.apply(ctx, a)
	if err != nil {
		return Applied{}, store.Explain("changing resources", err)
	}
	return applied, nil
}

func (s *Store) apply(ctx context.Context, a Apply) (Applied, error) {
	var outcomes []Outcome
	applied, err := s.Transact(ctx, a, func(tx pgx.Tx) error {
		open, err := expect(ctx, tx, a.Expected)
		if err != nil {
			return err
		}
		upserted, err := upsert(ctx, tx, a.Upserts)
		if err == nil {
			err = a.expectCreated(ctx, tx, upserted)
		}
		if err == nil {
			err = a.expectSame(open, upserted)
		}
		if err != nil {
			return err
		}
		deleted, err := remove(ctx, tx, a.Deletes)
		outcomes = slices.Concat(upserted, deleted)
		return err
	})
	applied.Outcomes = outcomes
	return applied, err
}

// refuseDuplicates refuses keys that are named twice, because the outcome would depend on their
// order.
func (a Apply) refuseDuplicates() error {
	var twice kinds.Errors
	seen := map[kinds.Key]bool{}
	keys := slices.Clone(a.Deletes)
	for _, u := range a.Upserts {
		keys = append(keys, u.Key)
	}
	for _, k := range keys {
		if seen[k] {
			twice = append(twice, kinds.Violation{Kind: k.Kind.Name, Namespace: k.Namespace, Name: k.Name, Reason: "is named twice in one change"})
		}
		seen[k] = true
	}
	if len(twice) > 0 {
		return twice
	}
	return nil
}
