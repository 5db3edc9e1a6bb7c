package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/history"
	"github.com/pgmesh/pgmesh/store/resources"
)

// revisionsOf reads the whole history that a query asks for, page by page.
func revisionsOf(t *testing.T, s *history.Store, q history.Query) (numbers []store.Revision) {
	t.Helper()
	if q.AtMost == 0 {
		q.AtMost = 2
	}
	q.Changes, q.MaxSize = 10, 1<<20
	for {
		page, err := s.Revisions(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Revisions), q.AtMost)
		for _, r := range page.Revisions {
			numbers = append(numbers, r.Revision)
		}
		if page.Next == 0 {
			return numbers
		}
		q.Before = page.Next
	}
}

func TestHistoryFindsTheRevisionsThatWereAskedFor(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	change := func(author, message, name, host string) {
		db.Exec("BEGIN")
		db.Exec("SELECT set_config('mesh.author', $1, true), set_config('mesh.message', $2, true)", author, message)
		db.Put(name, host)
		db.Exec("COMMIT")
	}
	change("ada", "First of all", "x", "a")
	change("bob", "", "y", "a")
	change("ada", "second", "x", "b")
	db.Exec("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'shop', 'x', $1)", storetest.VirtualService("s"))
	change("bob", "third", "y", "b")
	times := storetest.Value[[]time.Time](db, "SELECT array_agg(time ORDER BY revision) FROM mesh.revisions")

	for name, test := range map[string]struct {
		q    history.Query
		want []store.Revision
	}{
		"all":         {history.Query{}, []store.Revision{5, 4, 3, 2, 1}},
		"author":      {history.Query{Author: "ada"}, []store.Revision{3, 1}},
		"message":     {history.Query{Message: "FIRST"}, []store.Revision{1}},
		"name":        {history.Query{Selection: resources.Selection{Names: []string{"x"}}}, []store.Revision{4, 3, 1}},
		"namespace":   {history.Query{Selection: resources.Selection{Namespaces: []string{"shop"}}}, []store.Revision{4}},
		"a resource":  {history.Query{Selection: resources.Selection{Kinds: []*kinds.Kind{storetest.Key(t, "").Kind}, Namespaces: []string{"default"}, Names: []string{"x"}}}, []store.Revision{3, 1}},
		"since":       {history.Query{Since: times[2]}, []store.Revision{5, 4, 3}},
		"until":       {history.Query{Until: times[2]}, []store.Revision{3, 2, 1}},
		"before all":  {history.Query{Until: times[0].Add(-time.Second)}, nil},
		"after all":   {history.Query{Since: times[4].Add(time.Second)}, nil},
		"both":        {history.Query{Since: times[1], Until: times[3], Author: "ada"}, []store.Revision{3}},
		"one":         {history.Query{Only: 4}, []store.Revision{4}},
		"one, not so": {history.Query{Only: 4, Author: "ada"}, nil},
	} {
		require.Equal(t, test.want, revisionsOf(t, s, test.q), name)
	}
}

func TestHistoryListsChanges(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Exec("BEGIN")
	db.Put("x", "b")
	db.Put("y", "b")
	db.Put("z", "b")
	db.Exec("COMMIT")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'x'")

	page, err := s.Revisions(t.Context(), history.Query{AtMost: 10, Changes: 2, Documents: true, MaxSize: 1 << 20})

	require.NoError(t, err)
	require.Zero(t, page.Next)
	found := page.Revisions
	require.Len(t, found, 3)
	deleted, changed, created := found[0], found[1], found[2]
	require.Equal(t, store.Delete, deleted.Changes[0].Operation)
	require.Nil(t, deleted.Changes[0].After)
	require.JSONEq(t, string(storetest.VirtualService("b")), string(deleted.Changes[0].Before.Spec))
	require.Equal(t, []int{3, 2, 1}, []int{changed.Size, len(changed.Changes), changed.Omitted})
	require.Equal(t, store.Update, changed.Changes[0].Operation)
	require.Equal(t, storetest.Key(t, "y"), changed.Changes[1].Key)
	require.Nil(t, created.Changes[0].Before)
	require.JSONEq(t, string(storetest.VirtualService("a")), string(created.Changes[0].After.Spec))

	small, err := s.Revisions(t.Context(), history.Query{AtMost: 10, Changes: 5, Documents: true, MaxSize: 1})
	require.NoError(t, err)
	require.Equal(t, []int{0, 3}, []int{len(small.Revisions[1].Changes), small.Revisions[1].Omitted}, "what does not fit is counted")
}

func TestDiffGathersTheFieldsOfEachResource(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Put("y", "a")
	db.Exec("UPDATE mesh.virtual_services SET hosts = '{c}', labels = '{\"n\": \"1\"}' WHERE name = 'x'")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'y'")
	diff := func(d history.Difference) (text []string) {
		err := s.Diff(t.Context(), d, func(from, to store.Revision) error {
			text = append(text, fmt.Sprint(from, "-", to))
			return nil
		}, func(r *history.ResourceDiff) error {
			line := []string{string(r.Operation), r.Key.Name}
			for _, f := range r.Fields {
				line = append(line, fmt.Sprintf("%s: %.5s>%.5s", f.Path, f.Before, f.After))
			}
			text = append(text, strings.Join(line, " "))
			return nil
		})
		require.NoError(t, err)
		return text
	}

	require.Equal(t, []string{"2-4", `update x metadata.labels.n: >"1" spec.hosts[0]: "a">"c"`, `delete y : {"spe>`},
		diff(history.Difference{From: store.When(2)}))
	require.Equal(t, []string{"4-2", `update x metadata.labels.n: "1"> spec.hosts[0]: "c">"a"`, `create y : >{"spe`},
		diff(history.Difference{From: store.When(4), To: store.When(2)}))
	require.Equal(t, []string{"2-4", `delete y : {"spe>`},
		diff(history.Difference{From: store.When(2), Selection: resources.Selection{Names: []string{"y"}}}))
	require.Equal(t, []string{"4-4"}, diff(history.Difference{From: store.Moment{}}))
	err := s.Diff(t.Context(), history.Difference{From: store.When(9)}, func(store.Revision, store.Revision) error {
		t.Error("it begins although it is refused")
		return nil
	}, nil)
	require.ErrorIs(t, err, store.ErrNoHistory)
}

func TestBlameInGo(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Exec("UPDATE mesh.virtual_services SET hosts = '{c}' WHERE name = 'x'")

	fields, err := s.Blame(t.Context(), storetest.Key(t, "x"))

	require.NoError(t, err)
	set := map[string]store.Revision{}
	for _, f := range fields {
		set[f.Path] = f.Revision
		require.NotZero(t, f.Time)
	}
	require.Equal(t, map[string]store.Revision{"spec.hosts[0]": 2, "spec.http[0].route[0].destination.host": 1}, set)
	_, err = s.Blame(t.Context(), storetest.Key(t, "nobody"))
	require.ErrorIs(t, err, store.ErrNotFound)
}

// A caller is narrowed to the namespaces that it may read, in which there may be nothing yet.
func TestNothingIsToldOfANamespaceWithNothingInIt(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	storetest.Connect(t, url).Put("x", "a")
	narrow := resources.Selection{Namespaces: []string{"planned"}}
	err := s.Diff(t.Context(), history.Difference{Selection: narrow, From: store.When(0)}, func(store.Revision, store.Revision) error { return nil },
		func(r *history.ResourceDiff) error { return fmt.Errorf("told of %s", r.Key) })
	require.NoError(t, err)
	done, err := s.Restore(t.Context(), history.Restoring{Selection: narrow, To: store.When(0)})
	require.NoError(t, err)
	require.Empty(t, done.Keys)
}
