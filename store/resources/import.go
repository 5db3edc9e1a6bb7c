package resources

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// Importing is the transaction of an Import.
type Importing struct{ tx pgx.Tx }

// Import is an Apply for more than fits into memory: do passes it on in portions. All are one
// transaction, which is rolled back if do fails. Only the Apply's origin and options count, and the
// result has no outcomes.
func (s *Store) Import(ctx context.Context, a Apply, do func(*Importing) error) (Applied, error) {
	applied, err := s.Transact(ctx, a, func(tx pgx.Tx) error {
		if err := do(&Importing{tx}); err != nil {
			return store.OfCaller(err)
		}
		return nil
	})
	return applied, store.Explain("importing resources", err)
}

// Put creates or replaces resources. None may have been put before.
func (i *Importing) Put(ctx context.Context, upserts []Upsert) ([]Outcome, error) {
	outcomes, err := upsert(ctx, i.tx, upserts)
	return outcomes, store.Explain("importing resources", err)
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
	return gone, store.Explain("pruning resources", err)
}

func (i *Importing) prune(ctx context.Context, p Prune) ([]kinds.Key, error) {
	var kept, of rows.Columns
	for _, k := range p.Kept {
		kept.AddKey(k)
	}
	pruned := p.Kinds
	if len(pruned) == 0 {
		pruned = kinds.All()
	}
	for _, k := range pruned {
		of.AddKey(kinds.Key{Kind: k})
	}
	deleted, err := i.tx.Query(ctx, sql.Prune,
		kept.Groups, kept.Kinds, kept.Namespaces, kept.Names, of.Groups, of.Kinds, p.Namespaces)
	if err != nil {
		return nil, err
	}
	found, err := rows.Flags(deleted)
	if err != nil {
		return nil, err
	}
	var gone []kinds.Key
	for k := range found {
		if kind, known := kinds.Lookup(k.Group, k.Kind); known {
			gone = append(gone, kinds.Key{Kind: kind, Namespace: k.Namespace, Name: k.Name})
		}
	}
	slices.SortFunc(gone, rows.Compare)
	return gone, nil
}
