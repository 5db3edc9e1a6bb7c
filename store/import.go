package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Importing is the transaction of an Import.
type Importing struct{ tx pgx.Tx }

// Import is an Apply for more than fits into memory: do passes it on in portions. All are one
// transaction, which is rolled back if do fails. Only the Apply's origin and options count, and the
// result has no outcomes.
func (s *Store) Import(ctx context.Context, a Apply, do func(*Importing) error) (Applied, error) {
	applied, err := s.transact(ctx, a, func(tx pgx.Tx) error {
		if err := do(&Importing{tx}); err != nil {
			return OfCaller(err)
		}
		return nil
	})
	return applied, Explain("importing resources", err)
}

// Put creates or replaces resources. None may have been put before.
func (i *Importing) Put(ctx context.Context, upserts []Upsert) ([]Outcome, error) {
	outcomes, err := upsert(ctx, i.tx, upserts)
	return outcomes, Explain("importing resources", err)
}

// Prune selects resources to delete, unless they are Kept.
type Prune struct {
	Namespaces []string
	Kinds      []*kinds.Kind // none stands for all
	Kept       []kinds.Key
}

// Prune deletes resources, and returns their keys in order.
func (i *Importing) Prune(ctx context.Context, p Prune) ([]kinds.Key, error) {
	gone, err := i.prune(ctx, p)
	return gone, Explain("pruning resources", err)
}

func (i *Importing) prune(ctx context.Context, p Prune) ([]kinds.Key, error) {
	var kept, of columns
	for _, k := range p.Kept {
		kept.addKey(k)
	}
	pruned := p.Kinds
	if len(pruned) == 0 {
		pruned = kinds.All()
	}
	for _, k := range pruned {
		of.addKey(kinds.Key{Kind: k})
	}
	rows, err := i.tx.Query(ctx, `
		DELETE FROM mesh.resources r
		USING unnest($5::text[], $6::text[]) AS pruned (g, k)
		WHERE r.api_group = pruned.g AND r.kind = pruned.k AND r.namespace = ANY ($7::text[])
			AND (r.api_group, r.kind, r.namespace, r.name) NOT IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]))
		RETURNING r.api_group, r.kind, r.namespace, r.name, true`,
		kept.groups, kept.kinds, kept.namespaces, kept.names, of.groups, of.kinds, p.Namespaces)
	if err != nil {
		return nil, err
	}
	found, err := collectKeys(rows)
	if err != nil {
		return nil, err
	}
	var gone []kinds.Key
	for k := range found {
		if kind, known := kinds.Lookup(k.group, k.kind); known {
			gone = append(gone, kinds.Key{Kind: kind, Namespace: k.namespace, Name: k.name})
		}
	}
	slices.SortFunc(gone, compareKeys)
	return gone, nil
}
