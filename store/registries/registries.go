// Package registries mirrors what registries have into the database, for people who ask in SQL.
//
// One keeper, a session of a server, mirrors a registry at a time; the first that claims it. What is
// mirrored is shown and never served. Nothing of it is a revision, and nobody is notified.
package registries

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// Store is the mirror of a database. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the mirror of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Claim, Entries, Write, Leave, Statuses, Moves string
}](files)

// Registry is a registry as a server names it.
type Registry struct {
	Name string
	Rank int // how many origins count before it
}

// Claim has a keeper mirror a registry, and reports whether it does: not while another does that has
// read the registry, or has claimed it before and this one has not read it either.
func (s *Store) Claim(ctx context.Context, keeper *rollout.Keeper, r Registry, read bool) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.db.Pool().QueryRow(ctx, sql.Claim, keeper.ID(), r.Name, r.Rank, read).Scan(&mine)
	return mine, store.Explain("claiming to mirror a registry", err)
}

// Key names an entry.
type Key struct {
	Kind      string `json:"kind"`
	Group     string `json:"api_group"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Mirrored is an entry that is there, without its content.
type Mirrored struct {
	Key

	Version string
}

// Entries lists entries of a registry in order, from the one after a key on; the zero Key is before all.
func (s *Store) Entries(ctx context.Context, registry string, after Key, atMost int) ([]Mirrored, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.Entries, registry, after.Kind, after.Group, after.Namespace, after.Name, atMost)
	if err != nil {
		return nil, store.Explain("reading what is mirrored of a registry", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Mirrored, err error) {
		err = row.Scan(&m.Kind, &m.Group, &m.Namespace, &m.Name, &m.Version)
		return m, err
	})
	return list, store.Explain("reading what is mirrored of a registry", err)
}

// Entry is a resource of a registry.
type Entry struct {
	Key

	Version     string            `json:"version"` // tells contents apart
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Spec        json.RawMessage   `json:"spec"`
	Created     *time.Time        `json:"created_at"` // nil if the registry does not say
}

// Bad is an entry that cannot be used. Without a resource that it is or was, the key is nil.
type Bad struct {
	*Key

	Entry  string `json:"entry"`
	Reason string `json:"reason"`
}

// State is how a registry is.
type State struct {
	Read   bool       // the server has read it
	Stale  *time.Time // since when it cannot be asked; nil while it can
	Reason string     // why not
	Bad    []Bad      // the first of the entries that cannot be used
	AllBad int        // how many there are
}

// Changes are what has changed of a registry.
type Changes struct {
	State

	Entries []Entry // those that are as they were are not written
	Gone    []Key
}

// Write takes what has changed, in one transaction. It reports false, and writes nothing, if the
// keeper does not mirror the registry any more.
func (s *Store) Write(ctx context.Context, keeper *rollout.Keeper, registry string, c Changes) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	c.tidy()
	lists := make([][]byte, 0, 3)
	for _, list := range []any{append([]Bad{}, c.Bad...), append([]Entry{}, c.Entries...), append([]Key{}, c.Gone...)} {
		text, err := json.Marshal(list)
		if err != nil {
			return false, fmt.Errorf("mirroring a registry: %w", err)
		}
		lists = append(lists, text)
	}
	err = s.db.Pool().QueryRow(ctx, sql.Write, keeper.ID(), registry, c.Read, c.Stale, c.Reason, lists[0], c.AllBad, lists[1], lists[2]).Scan(&mine)
	return mine, store.Explain("mirroring a registry", err)
}

// tidy leaves out what no text of Postgres can have, and fills in what must not be NULL.
func (c *Changes) tidy() {
	c.Reason = store.Storable(c.Reason)
	for i := range c.Bad {
		c.Bad[i].Entry, c.Bad[i].Reason = store.Storable(c.Bad[i].Entry), store.Storable(c.Bad[i].Reason)
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		e.Labels, e.Annotations = storable(e.Labels), storable(e.Annotations)
		e.Spec = bytes.ReplaceAll(e.Spec, []byte(`\u0000`), []byte(`\ufffd`))
	}
}

func storable(all map[string]string) map[string]string {
	out := make(map[string]string, len(all))
	for key, value := range all {
		out[store.Storable(key)] = store.Storable(value)
	}
	return out
}

// Leave ends what a keeper mirrors, so that another server goes on with it at once.
func (s *Store) Leave(ctx context.Context, keeper *rollout.Keeper) error {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	_, err := s.db.Pool().Exec(ctx, sql.Leave, keeper.ID())
	return store.Explain("leaving registries to other servers", err)
}
