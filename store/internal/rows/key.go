package rows

import (
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Key is a key in the database, whose kind this program may not know.
type Key struct{ Group, Kind, Namespace, Name string }

// KeyOf returns the key as the database has it.
func KeyOf(k kinds.Key) Key { return Key{k.Kind.Group, k.Kind.Name, k.Namespace, k.Name} }

// Targets are what the columns of a key are scanned into.
func (k *Key) Targets() []any { return []any{&k.Group, &k.Kind, &k.Namespace, &k.Name} }

// Known finds the kind of a row at a revision, or reports that the row is skipped.
func (k *Key) Known(db *store.Store, revision store.Revision) (kinds.Key, bool) {
	kind, ok := kinds.Lookup(k.Group, k.Kind)
	if k.Group == kinds.Secret.Group && k.Kind == kinds.Secret.Name { // history records changes of secrets
		kind, ok = kinds.Secret, true
	}
	if !ok {
		db.Skip(store.Skipped{Group: k.Group, Kind: k.Kind, Namespace: k.Namespace, Name: k.Name, Revision: revision})
		return kinds.Key{}, false
	}
	return kinds.Key{Kind: kind, Namespace: k.Namespace, Name: k.Name}, true
}

// Compare orders keys, so that transactions that lock several resources cannot deadlock.
func Compare(a, b kinds.Key) int { return a.Compare(b) }
