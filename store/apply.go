package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Apply is a transaction to make.
type Apply struct {
	Upserts     []Upsert
	Deletes     []kinds.Key
	Expected    []Expected // if one is not met, nothing is done
	Author      string     // on whose behalf; empty means the database role
	Application string     // the program; empty means the Store's own
	Message     string
	Limited     bool          // whether the quotas of namespaces hold
	Reading     *Reading      // the namespaces that warnings and refusals may name
	DryRun      bool          // roll the transaction back
	Confirm     time.Duration // revert it unless confirmed within this time; 0 keeps it
}

// Upsert is a resource to create or replace.
type Upsert struct {
	Key                 kinds.Key
	Labels, Annotations map[string]string
	Spec                json.RawMessage
}

// Applied is the result of an Apply. Revision is 0 if nothing changed, or in a dry run.
type Applied struct {
	Revision Revision
	Outcomes []Outcome // of the upserts, then of the deletes, in their order
	Warnings []Problem // problems that the change causes, or would cause
	Omitted  int       // how many more warnings there are
	Deadline time.Time // when it is reverted unless confirmed; zero if it stays
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

// Apply does everything in one transaction, or nothing. It returns what the database finds wrong with
// resources as kinds.Errors, ErrNotFound for deleting a missing resource, and ErrChanged for an unmet
// expectation.
func (s *Store) Apply(ctx context.Context, a Apply) (Applied, error) {
	if err := a.refuseDuplicates(); err != nil {
		return Applied{}, err
	}
	applied, err := s.apply(ctx, a)
	if err != nil {
		return Applied{}, Explain("changing resources", err)
	}
	return applied, nil
}

func (s *Store) apply(ctx context.Context, a Apply) (Applied, error) {
	var outcomes []Outcome
	applied, err := s.transact(ctx, a, func(tx pgx.Tx) error {
		if err := expect(ctx, tx, a.Expected); err != nil {
			return err
		}
		upserted, err := upsert(ctx, tx, a.Upserts)
		if err == nil {
			err = a.expectCreated(ctx, tx, upserted)
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

// transact runs do in a transaction that records its origin. It returns the result without outcomes.
func (s *Store) transact(ctx context.Context, a Apply, do func(pgx.Tx) error) (applied Applied, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return Applied{}, err
	}
	defer conn.Release()
	heard := collectWarnings(conn.Conn())
	defer func() { applied.Warnings, applied.Omitted = heard.end() }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return Applied{}, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	_, err = tx.Exec(ctx, `SELECT set_config('mesh.author', $1, true), set_config('mesh.message', $2, true), set_config('mesh.limited', $4, true),
		set_config('mesh.reading', $5, true), set_config('application_name', coalesce(nullif($3, ''), current_setting('application_name')), true)`,
		a.Author, a.Message, a.Application, onOff(a.Limited), a.Reading.setting())
	if err != nil {
		return Applied{}, err
	}
	if err := do(tx); err != nil {
		return Applied{}, err
	}
	var id *int64
	if err := tx.QueryRow(ctx, "SELECT max(id) FROM mesh.running_transaction").Scan(&id); err != nil {
		return Applied{}, err
	}
	if a.DryRun { // a commit would examine the change
		_, err = tx.Exec(ctx, "SELECT mesh.examine_change($1)", id)
		return Applied{}, err
	}
	if a.Confirm > 0 && id != nil {
		if _, err := tx.Exec(ctx, "SELECT mesh.commit_confirmed($1)", a.Confirm); err != nil {
			return Applied{}, err
		}
	}
	if err := tx.Commit(ctx); err != nil || id == nil {
		return Applied{}, err
	}
	// The transaction has no row if its changes cancelled each other out.
	if err := conn.QueryRow(ctx, "SELECT coalesce(max(revision), 0) FROM mesh.transactions WHERE id = $1", *id).Scan(&applied.Revision); err != nil {
		return Applied{}, err
	}
	if a.Confirm > 0 && applied.Revision > 0 {
		err = conn.QueryRow(ctx, "SELECT deadline FROM mesh.confirmations WHERE revision = $1", applied.Revision).Scan(&applied.Deadline)
	}
	return applied, err
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// refuseDuplicates refuses keys that are named twice, because the outcome would depend on their order.
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

// columns are the parameters of a statement about many resources, one array for each column.
type columns struct{ groups, kinds, namespaces, names, specs, labels, annotations []string }

func (c *columns) addKey(k kinds.Key) {
	c.groups = append(c.groups, k.Kind.Group)
	c.kinds = append(c.kinds, k.Kind.Name)
	c.namespaces = append(c.namespaces, k.Namespace)
	c.names = append(c.names, k.Name)
}

// upsert upserts in the order of the keys, so that concurrent Applies cannot deadlock. A row that needs
// no change is locked and not written.
func upsert(ctx context.Context, tx pgx.Tx, upserts []Upsert) ([]Outcome, error) {
	resources, secrets := partition(upserts, func(u Upsert) bool { return isSecret(u.Key) })
	written, err := upsertResources(ctx, tx, resources)
	if err == nil && len(secrets) > 0 {
		var also map[key]bool
		also, err = upsertSecrets(ctx, tx, secrets)
		maps.Copy(written, also)
	}
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(upserts))
	for i, u := range upserts {
		outcomes[i] = outcomeOf(written, u.Key)
	}
	return outcomes, nil
}

// partition splits a list by a predicate.
func partition[T any](all []T, of func(T) bool) (others, found []T) {
	for _, item := range all {
		if of(item) {
			found = append(found, item)
		} else {
			others = append(others, item)
		}
	}
	return others, found
}

func upsertResources(ctx context.Context, tx pgx.Tx, upserts []Upsert) (map[key]bool, error) {
	if len(upserts) == 0 {
		return map[key]bool{}, nil
	}
	var c columns
	for _, u := range slices.SortedFunc(slices.Values(upserts), func(a, b Upsert) int { return compareKeys(a.Key, b.Key) }) {
		c.addKey(u.Key)
		c.specs = append(c.specs, string(u.Spec))
		c.labels = append(c.labels, jsonObject(u.Labels))
		c.annotations = append(c.annotations, jsonObject(u.Annotations))
	}
	rows, err := tx.Query(ctx, `
		INSERT INTO mesh.resources AS r (api_group, kind, namespace, name, spec, labels, annotations)
		SELECT g, k, s, n, spec::jsonb, labels::jsonb, annotations::jsonb
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) AS u (g, k, s, n, spec, labels, annotations)
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE
		SET spec = EXCLUDED.spec, labels = EXCLUDED.labels, annotations = EXCLUDED.annotations
		WHERE (r.spec, r.labels, r.annotations) IS DISTINCT FROM (EXCLUDED.spec, EXCLUDED.labels, EXCLUDED.annotations)
		RETURNING api_group, kind, namespace, name, xmax = 0`,
		c.groups, c.kinds, c.namespaces, c.names, c.specs, c.labels, c.annotations)
	if err != nil {
		return nil, err
	}
	return collectKeys(rows)
}

func outcomeOf(written map[key]bool, k kinds.Key) Outcome {
	created, changed := written[keyOf(k)]
	switch {
	case created:
		return Created
	case changed:
		return Configured
	}
	return Unchanged
}

func remove(ctx context.Context, tx pgx.Tx, deletes []kinds.Key) ([]Outcome, error) {
	resources, secrets := partition(deletes, isSecret)
	gone, err := removeResources(ctx, tx, resources)
	if err == nil && len(secrets) > 0 {
		var also map[key]bool
		also, err = removeSecrets(ctx, tx, secrets)
		maps.Copy(gone, also)
	}
	if err != nil {
		return nil, err
	}
	var missing []error
	for _, k := range deletes {
		if !gone[keyOf(k)] {
			missing = append(missing, &NotFoundError{k})
		}
	}
	if len(missing) > 0 {
		return nil, OfCaller(errors.Join(missing...))
	}
	return slices.Repeat([]Outcome{Deleted}, len(deletes)), nil
}

func removeResources(ctx context.Context, tx pgx.Tx, deletes []kinds.Key) (map[key]bool, error) {
	if len(deletes) == 0 {
		return map[key]bool{}, nil
	}
	var c columns
	for _, k := range slices.SortedFunc(slices.Values(deletes), compareKeys) {
		c.addKey(k)
	}
	rows, err := tx.Query(ctx, `
		DELETE FROM mesh.resources r
		USING unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS d (g, k, s, n)
		WHERE r.api_group = g AND r.kind = k AND r.namespace = s AND r.name = n
		RETURNING api_group, kind, namespace, name, true`, c.groups, c.kinds, c.namespaces, c.names)
	if err != nil {
		return nil, err
	}
	return collectKeys(rows)
}

// collectKeys reads rows of a key and a flag.
func collectKeys(rows pgx.Rows) (map[key]bool, error) {
	found := map[key]bool{}
	var k key
	var flag bool
	_, err := pgx.ForEachRow(rows, []any{&k.group, &k.kind, &k.namespace, &k.name, &flag}, func() error {
		found[k] = flag
		return nil
	})
	return found, err
}

func compareKeys(a, b kinds.Key) int {
	return cmp.Or(
		cmp.Compare(a.Kind.Name, b.Kind.Name), cmp.Compare(a.Kind.Group, b.Kind.Group),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func jsonObject(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("encoding a map of strings: %v", err))
	}
	return string(text)
}
