package resources_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

func TestApply(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	upsert := func(name, host string) resources.Upsert {
		return resources.Upsert{Key: storetest.Key(t, name), Labels: map[string]string{"app": name}, Spec: storetest.VirtualService(host)}
	}

	got, err := s.Apply(t.Context(), resources.Apply{
		Upserts: []resources.Upsert{upsert("b", "x"), upsert("a", "x")}, Author: "alice", Application: "the test", Message: "begin",
	})
	require.NoError(t, err)
	require.Equal(t, resources.Applied{Revision: 1, Outcomes: []resources.Outcome{resources.Created, resources.Created}}, unwarned(got))
	require.Equal(t, "alice, the test, begin", storetest.Value[string](db, "SELECT concat_ws(', ', author, application, message) FROM mesh.revisions"))

	change := resources.Apply{Upserts: []resources.Upsert{upsert("a", "x"), upsert("b", "y"), upsert("c", "x")}, DryRun: true}
	want := []resources.Outcome{resources.Unchanged, resources.Configured, resources.Created}
	got, err = s.Apply(t.Context(), change)
	require.NoError(t, err)
	require.Equal(t, resources.Applied{Outcomes: want}, unwarned(got))
	require.Equal(t, int64(1), db.Newest())
	change.DryRun = false
	got, err = s.Apply(t.Context(), change)
	require.NoError(t, err)
	require.Equal(t, resources.Applied{Revision: 2, Outcomes: want}, unwarned(got))

	got, err = s.Apply(t.Context(), resources.Apply{Upserts: change.Upserts})
	require.NoError(t, err)
	require.Equal(t, resources.Applied{Outcomes: []resources.Outcome{resources.Unchanged, resources.Unchanged, resources.Unchanged}}, unwarned(got))

	_, err = s.Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{upsert("d", "x")}, Deletes: []kinds.Key{storetest.Key(t, "a"), storetest.Key(t, "gone")}})
	require.ErrorIs(t, err, store.ErrNotFound)
	require.EqualError(t, err, "VirtualService default/gone: not found")
	require.Equal(t, int64(2), db.Newest())

	got, err = s.Apply(t.Context(), resources.Apply{Deletes: []kinds.Key{storetest.Key(t, "a")}})
	require.NoError(t, err)
	require.Equal(t, resources.Applied{Revision: 3, Outcomes: []resources.Outcome{resources.Deleted}}, unwarned(got))
}

// unwarned is what came of a change, but for its warnings, which are tested by themselves.
func unwarned(a resources.Applied) resources.Applied {
	a.Warnings, a.Omitted = nil, 0
	return a
}

func TestApplyBringsBackWhatTheDatabaseFindsWrong(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	_, err := s.Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{
		{Key: storetest.Key(t, "good"), Spec: storetest.VirtualService("a")},
		{Key: storetest.Key(t, "reviews"), Spec: json.RawMessage(`{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}, "wieght": 5}]}], "gatways": []}`)},
	}})
	var found kinds.Errors
	require.ErrorAs(t, err, &found)
	require.Equal(t, kinds.Errors{
		{Kind: "VirtualService", Namespace: "default", Name: "reviews", Path: "spec.http[0].route[0].wieght", Reason: `unknown field "wieght"`, Hint: `did you mean "weight"?`},
		{Kind: "VirtualService", Namespace: "default", Name: "reviews", Path: "spec.gatways", Reason: `unknown field "gatways"`, Hint: `did you mean "gateways"?`},
	}, found)

	_, err = s.Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{{Key: storetest.Key(t, "a"), Spec: storetest.VirtualService("a")}}, Deletes: []kinds.Key{storetest.Key(t, "a")}})
	require.EqualError(t, err, "VirtualService default/a: is named twice in one change")
}

func TestGetAndList(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("b", "x")
	db.Put("a", "x")
	db.Exec(`INSERT INTO mesh.resources (kind, api_group, name, spec) VALUES ('Gateway', 'gateway.networking.k8s.io', 'x',
		'{"gatewayClassName": "c", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}')`)

	r, err := s.Get(t.Context(), storetest.Key(t, "a"))
	require.NoError(t, err)
	require.Equal(t, storetest.Key(t, "a"), r.Key)
	_, err = s.Get(t.Context(), storetest.Key(t, "c"))
	require.ErrorIs(t, err, store.ErrNotFound)

	names := func(kind *kinds.Kind, namespace string) (names []string) {
		list, err := s.List(t.Context(), kind, namespace)
		require.NoError(t, err)
		for _, r := range list {
			names = append(names, r.Key.String())
		}
		return names
	}
	require.Equal(t, []string{"VirtualService default/a", "VirtualService default/b"}, names(storetest.Key(t, "").Kind, ""))
	require.Equal(t, []string{"Gateway default/x", "VirtualService default/a", "VirtualService default/b"}, names(nil, "default"))
	require.Equal(t, []string{"Gateway default/x"}, names(gateway(t).Kind, "default"))
	require.Empty(t, names(nil, "elsewhere"))
}

func gateway(t *testing.T) kinds.Key {
	t.Helper()
	kind, ok := kinds.Lookup("gateway.networking.k8s.io", "Gateway")
	require.True(t, ok)
	return kinds.Key{Kind: kind, Namespace: "default", Name: "x"}
}
