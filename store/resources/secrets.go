package resources

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// Secrets are changed together with resources, though they are in a table of their own.

// isSecret reports whether a key is a secret's.
func isSecret(k kinds.Key) bool { return k.Kind == kinds.Secret }

// upsertSecrets is upsert for secrets, whose specs have a type, data and service accounts.
func upsertSecrets(ctx context.Context, tx pgx.Tx, upserts []Upsert) (map[rows.Key]bool, error) {
	var c rows.Columns
	for _, u := range slices.SortedFunc(slices.Values(upserts), func(a, b Upsert) int { return rows.Compare(a.Key, b.Key) }) {
		c.AddKey(u.Key)
		c.Specs = append(c.Specs, string(u.Spec))
		c.Labels = append(c.Labels, jsonObject(u.Labels))
	}
	found, err := tx.Query(ctx, sql.UpsertSecrets, c.Namespaces, c.Names, c.Specs, c.Labels)
	if err != nil {
		return nil, err
	}
	return rows.Flags(found)
}

func removeSecrets(ctx context.Context, tx pgx.Tx, deletes []kinds.Key) (map[rows.Key]bool, error) {
	var c rows.Columns
	for _, k := range slices.SortedFunc(slices.Values(deletes), rows.Compare) {
		c.AddKey(k)
	}
	found, err := tx.Query(ctx, sql.RemoveSecrets, c.Namespaces, c.Names)
	if err != nil {
		return nil, err
	}
	return rows.Flags(found)
}
