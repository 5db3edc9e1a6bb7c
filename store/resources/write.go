package resources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// upsert upserts in the order of the keys, so that concurrent Applies cannot deadlock. A row that
// needs no change is locked and not written.
func upsert(ctx context.Context, tx pgx.Tx, upserts []Upsert) ([]Outcome, error) {
	resources, secrets := partition(upserts, func(u Upsert) bool { return isSecret(u.Key) })
	written, err := upsertResources(ctx, tx, resources)
	if err == nil && len(secrets) > 0 {
		var also map[rows.Key]bool
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

func upsertResources(ctx context.Context, tx pgx.Tx, upserts []Upsert) (map[rows.Key]bool, error) {
	if len(upserts) == 0 {
		return map[rows.Key]bool{}, nil
	}
	var c rows.Columns
	for _, u := range slices.SortedFunc(slices.Values(upserts), func(a, b Upsert) int { return rows.Compare(a.Key, b.Key) }) {
		c.AddKey(u.Key)
		c.Specs = append(c.Specs, string(u.Spec))
		c.Labels = append(c.Labels, jsonObject(u.Labels))
		c.Annotations = append(c.Annotations, jsonObject(u.Annotations))
	}
	found, err := tx.Query(ctx, sql.Upsert,
		c.Groups, c.Kinds, c.Namespaces, c.Names, c.Specs, c.Labels, c.Annotations)
	if err != nil {
		return nil, err
	}
	return rows.Flags(found)
}

func outcomeOf(written map[rows.Key]bool, k kinds.Key) Outcome {
	created, changed := written[rows.KeyOf(k)]
	switch {
	case created:
		return Created
	case changed:
		return Configured
	}
	return Unchanged
}

// remove deletes resources and secrets. Its error names all that are missing, so that a caller who
// allows that can leave them out and try once more.
func remove(ctx context.Context, tx pgx.Tx, deletes []kinds.Key) ([]Outcome, error) {
	resources, secrets := partition(deletes, isSecret)
	gone, err := removeResources(ctx, tx, resources)
	if err == nil && len(secrets) > 0 {
		var also map[rows.Key]bool
		also, err = removeSecrets(ctx, tx, secrets)
		maps.Copy(gone, also)
	}
	if err != nil {
		return nil, err
	}
	var missing []error
	for _, k := range deletes {
		if !gone[rows.KeyOf(k)] {
			missing = append(missing, &store.NotFoundError{Key: k})
		}
	}
	if len(missing) > 0 {
		return nil, store.OfCaller(errors.Join(missing...))
	}
	return slices.Repeat([]Outcome{Deleted}, len(deletes)), nil
}

func removeResources(ctx context.Context, tx pgx.Tx, deletes []kinds.Key) (map[rows.Key]bool, error) {
	if len(deletes) == 0 {
		return map[rows.Key]bool{}, nil
	}
	var c rows.Columns
	for _, k := range slices.SortedFunc(slices.Values(deletes), rows.Compare) {
		c.AddKey(k)
	}
	found, err := tx.Query(ctx, sql.Remove, c.Groups, c.Kinds, c.Namespaces, c.Names)
	if err != nil {
		return nil, err
	}
	return rows.Flags(found)
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
