package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// Expected is a condition of a change: the revision that a resource must be at.
type Expected struct {
	Key      kinds.Key
	Revision store.Revision // that changed it last; 0 means that it must not exist
	// OrSame lets pass a resource of another revision that the change leaves as it is: then nothing of others is lost.
	OrSame bool
}

// ChangedError says that a resource is not at the expected revision, and who changed it. Fields
// that history does not have are empty.
type ChangedError struct {
	Expected                     Expected
	Absent                       bool           // it does not exist
	Revision                     store.Revision // that changed or deleted it last
	Author, Application, Message string
	Time                         time.Time
}

// ErrChanged matches every ChangedError.
var ErrChanged = errors.New("somebody has changed it")

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
// transaction ends. A resource that must not exist may be created concurrently, so expectCreated
// checks again after the upsert. What is not met but may be the same is open: expectSame tells after the upsert.
func expect(ctx context.Context, tx pgx.Tx, expected []Expected) (open []*ChangedError, err error) {
	if len(expected) == 0 {
		return nil, nil
	}
	var c rows.Columns
	for _, e := range slices.SortedFunc(slices.Values(expected), func(a, b Expected) int { return rows.Compare(a.Key, b.Key) }) {
		c.AddKey(e.Key)
	}
	if _, err := tx.Exec(ctx, sql.LockExpected, c.Groups, c.Kinds, c.Namespaces, c.Names); err != nil {
		return nil, err
	}
	found, err := revisionsOf(ctx, tx, c)
	if err != nil {
		return nil, err
	}
	var changed []error
	for _, e := range expected {
		now, exists := found[rows.KeyOf(e.Key)]
		if now == e.Revision && exists == (e.Revision > 0) {
			continue
		}
		explained := &ChangedError{Expected: e, Absent: !exists, Revision: now}
		if err := explained.findAuthor(ctx, tx); err != nil { // before this change is the last
			return nil, err
		}
		if changed = append(changed, explained); e.OrSame && exists {
			open = append(open, explained)
		}
	}
	if len(changed) > len(open) { // whatever the upsert does
		return nil, store.OfCaller(errors.Join(changed...))
	}
	return open, nil
}

// expectSame returns an error for each of the open resources that the upserts have changed.
func (a Apply) expectSame(open []*ChangedError, outcomes []Outcome) error {
	did := map[kinds.Key]Outcome{}
	for i, u := range a.Upserts {
		did[u.Key] = outcomes[i]
	}
	var changed []error
	for _, one := range open {
		if did[one.Expected.Key] != Unchanged {
			changed = append(changed, one)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return store.OfCaller(errors.Join(changed...))
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
		return store.OfCaller(explained)
	}
	return nil
}

func revisionsOf(ctx context.Context, tx pgx.Tx, c rows.Columns) (map[rows.Key]store.Revision, error) {
	all, err := tx.Query(ctx, sql.ExpectedRevisions, c.Groups, c.Kinds, c.Namespaces, c.Names)
	if err != nil {
		return nil, err
	}
	found := map[rows.Key]store.Revision{}
	var k rows.Key
	var revision store.Revision
	_, err = pgx.ForEachRow(all, append(k.Targets(), &revision), func() error {
		found[k] = revision
		return nil
	})
	return found, err
}

func (e *ChangedError) findAuthor(ctx context.Context, tx pgx.Tx) error {
	k := e.Expected.Key
	err := tx.QueryRow(ctx, sql.LastChange, k.Kind.Name, k.Kind.Group, k.Namespace, k.Name).Scan(&e.Revision, &e.Author, &e.Application, &e.Message, &e.Time)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}
