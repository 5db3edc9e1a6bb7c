package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Expected is a condition of a change: the revision that a resource must be at.
type Expected struct {
	Key      kinds.Key
	Revision Revision // that changed it last; 0 means that it must not exist
}

// ChangedError says that a resource is not at the expected revision, and who changed it. Fields that
// history does not have are empty.
type ChangedError struct {
	Expected                     Expected
	Absent                       bool     // it does not exist
	Revision                     Revision // that changed or deleted it last
	Author, Application, Message string
	Time                         time.Time
}

// Is matches ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }

func (e *ChangedError) Error() string {
	var text strings.Builder
	text.WriteString(e.Expected.Key.String() + ": ")
	switch {
	case e.Absent && e.Revision == 0:
		text.WriteString("there is no such resource")
	case e.Absent:
		fmt.Fprintf(&text, "was deleted by revision %d", e.Revision)
	case e.Expected.Revision == 0:
		fmt.Fprintf(&text, "exists, since revision %d", e.Revision)
	default:
		fmt.Fprintf(&text, "is at revision %d", e.Revision)
	}
	if e.Author != "" {
		fmt.Fprintf(&text, ", of %s", e.Author)
	}
	if e.Expected.Revision > 0 {
		fmt.Fprintf(&text, "; expected was revision %d", e.Expected.Revision)
	}
	return text.String()
}

// expect returns an error unless all conditions are met. It locks the existing resources until the
// transaction ends. A resource that must not exist may be created concurrently, so expectCreated checks
// again after the upsert.
func expect(ctx context.Context, tx pgx.Tx, expected []Expected) error {
	if len(expected) == 0 {
		return nil
	}
	var c columns
	for _, e := range slices.SortedFunc(slices.Values(expected), func(a, b Expected) int { return compareKeys(a.Key, b.Key) }) {
		c.addKey(e.Key)
	}
	if _, err := tx.Exec(ctx, lockQuery, c.groups, c.kinds, c.namespaces, c.names); err != nil {
		return err
	}
	found, err := revisionsOf(ctx, tx, c)
	if err != nil {
		return err
	}
	var changed []error
	for _, e := range expected {
		now, exists := found[keyOf(e.Key)]
		if now == e.Revision && exists == (e.Revision > 0) {
			continue
		}
		explained := &ChangedError{Expected: e, Absent: !exists, Revision: now}
		if err := explained.findAuthor(ctx, tx); err != nil {
			return err
		}
		changed = append(changed, explained)
	}
	if len(changed) > 0 {
		return OfCaller(errors.Join(changed...))
	}
	return nil
}

// expectCreated returns an error for a resource that should not have existed. Upsert has waited for
// whoever was creating it.
func (a Apply) expectCreated(ctx context.Context, tx pgx.Tx, outcomes []Outcome) error {
	expected := map[kinds.Key]Expected{}
	for _, e := range a.Expected {
		expected[e.Key] = e
	}
	for i, u := range a.Upserts {
		e, asked := expected[u.Key]
		if !asked || e.Revision > 0 || outcomes[i] == Created {
			continue
		}
		explained := &ChangedError{Expected: e}
		if err := explained.findAuthor(ctx, tx); err != nil {
			return err
		}
		return OfCaller(explained)
	}
	return nil
}

const (
	expectedRows = "FROM mesh.resources r JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS e (g, k, s, n) ON r.api_group = g AND r.kind = k AND r.namespace = s AND r.name = n"

	lockQuery      = "SELECT " + expectedRows + " ORDER BY r.kind, r.api_group, r.namespace, r.name FOR UPDATE OF r"
	revisionsQuery = "SELECT r.api_group, r.kind, r.namespace, r.name, coalesce(mesh.revision_of(r), 0) " + expectedRows

	// lastQuery returns the revision that last changed or deleted a resource.
	lastQuery = `SELECT revision, author, application, message, time FROM mesh.history
		WHERE kind = $1 AND api_group = $2 AND namespace = $3 AND name = $4 ORDER BY revision DESC LIMIT 1`
)

func revisionsOf(ctx context.Context, tx pgx.Tx, c columns) (map[key]Revision, error) {
	rows, err := tx.Query(ctx, revisionsQuery, c.groups, c.kinds, c.namespaces, c.names)
	if err != nil {
		return nil, err
	}
	found := map[key]Revision{}
	var k key
	var revision Revision
	_, err = pgx.ForEachRow(rows, []any{&k.group, &k.kind, &k.namespace, &k.name, &revision}, func() error {
		found[k] = revision
		return nil
	})
	return found, err
}

func (e *ChangedError) findAuthor(ctx context.Context, tx pgx.Tx) error {
	k := e.Expected.Key
	err := tx.QueryRow(ctx, lastQuery, k.Kind.Name, k.Kind.Group, k.Namespace, k.Name).Scan(&e.Revision, &e.Author, &e.Application, &e.Message, &e.Time)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}
