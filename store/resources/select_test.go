package resources_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

// names reads all pages of a query, and changes something between any two.
func pages(t *testing.T, s *resources.Store, q resources.Query, between func(page int)) (names []string, pages int, at store.Revision) {
	t.Helper()
	for {
		page, err := s.Select(t.Context(), q)
		require.NoError(t, err)
		pages++
		for _, r := range page.Resources {
			names = append(names, r.Key.FullName())
			q.After = &r.Key
		}
		if !page.More {
			return names, pages, page.Revision
		}
		require.NotEmpty(t, page.Resources)
		q.At = store.When(page.Revision)
		between(pages)
	}
}

func TestPagesAreOfOneRevisionWhateverChanges(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	var want []string
	for i := range 10 {
		db.Put(fmt.Sprintf("vs-%d", i), "a")
		want = append(want, fmt.Sprintf("default/vs-%d", i))
	}

	names, count, at := pages(t, s, resources.Query{AtMost: 3, MaxSize: 1 << 20}, func(page int) {
		db.Exec("DELETE FROM mesh.resources WHERE name = $1", fmt.Sprintf("vs-%d", 9-page))
		db.Put(fmt.Sprintf("vs-%d-new", page), "b")
		db.Put("vs-4", fmt.Sprintf("changed-%d", page))
	})

	require.Equal(t, want, names)
	require.Equal(t, 4, count)
	require.Equal(t, store.Revision(10), at)
}

func TestAPageEndsWhereItBecomesTooLarge(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	for i := range 4 {
		db.Put(fmt.Sprintf("vs-%d", i), "a")
	}

	names, count, _ := pages(t, s, resources.Query{AtMost: 100, MaxSize: 1}, func(int) {})

	require.Len(t, names, 4)
	require.Equal(t, 4, count, "one resource a page is the least")
}

func TestSelectionsChooseByAllThatTheySay(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, labels, spec)
		SELECT 'VirtualService', namespace, name, labels::jsonb, jsonb_build_object('hosts', jsonb_build_array(name), 'http', '[{"route": [{"destination": {"host": "x"}}]}]'::jsonb)
		FROM (VALUES ('shop', 'cart', '{"app": "cart", "tier": "back"}'), ('shop', 'front', '{"app": "front"}'), ('pay', 'cart', '{}')) AS v (namespace, name, labels)`)
	db.Exec(`INSERT INTO mesh.destination_rules (namespace, name, host) VALUES ('shop', 'cart', 'cart')`)
	db.Exec(`INSERT INTO mesh.k8s_gateways (namespace, name, gateway_class_name, listeners) VALUES ('shop', 'cart', 'x', '[{"name": "a", "port": 80, "protocol": "HTTP"}]')`)
	db.Exec(`INSERT INTO mesh.gateways (namespace, name, servers) VALUES ('shop', 'cart', '[{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["a.example"]}]')`)
	kind := func(words ...string) []*kinds.Kind {
		var of []*kinds.Kind
		for _, w := range words {
			k, err := kinds.ByName(w)
			require.NoError(t, err)
			of = append(of, k)
		}
		return of
	}
	labels := func(text string) selector.Selector {
		l, err := selector.Parse(text)
		require.NoError(t, err)
		return l
	}
	newest := storetest.Value[int64](db, "SELECT mesh.newest_revision()")
	db.Exec("DELETE FROM mesh.resources") // so that both ways of reading are asked the same
	for name, test := range map[string]struct {
		sel  resources.Selection
		want []string
	}{
		"all":                   {resources.Selection{}, []string{"DestinationRule shop/cart", "Gateway shop/cart", "Gateway shop/cart", "VirtualService pay/cart", "VirtualService shop/cart", "VirtualService shop/front"}},
		"kind":                  {resources.Selection{Kinds: kind("dr")}, []string{"DestinationRule shop/cart"}},
		"a kind of two groups":  {resources.Selection{Kinds: kind("gateways.gateway.networking.k8s.io")}, []string{"Gateway shop/cart"}},
		"namespace":             {resources.Selection{Kinds: kind("vs"), Namespaces: []string{"pay"}}, []string{"VirtualService pay/cart"}},
		"name":                  {resources.Selection{Kinds: kind("vs"), Names: []string{"cart"}}, []string{"VirtualService pay/cart", "VirtualService shop/cart"}},
		"label":                 {resources.Selection{Labels: labels("app=cart")}, []string{"VirtualService shop/cart"}},
		"several labels":        {resources.Selection{Labels: labels("app in (cart,front),!tier")}, []string{"VirtualService shop/front"}},
		"labels that are not":   {resources.Selection{Kinds: kind("vs"), Labels: labels("app!=cart")}, []string{"VirtualService pay/cart", "VirtualService shop/front"}},
		"the spec":              {resources.Selection{Where: `$.hosts[*] == "front"`}, []string{"VirtualService shop/front"}},
		"nothing that there is": {resources.Selection{Kinds: kind("vs"), Namespaces: []string{"other"}}, nil},
	} {
		page, err := s.Select(t.Context(), resources.Query{Selection: test.sel, At: store.When(newest), AtMost: 100, MaxSize: 1 << 20})
		require.NoError(t, err, name)
		var then []string
		for _, r := range page.Resources {
			then = append(then, r.Key.String())
		}
		require.Equal(t, test.want, then, name)
	}
	db.Exec("SELECT mesh.restore($1::bigint)", newest)
	page, err := s.Select(t.Context(), resources.Query{Selection: resources.Selection{Kinds: kind("gateways.gateway.networking.k8s.io"), Labels: labels("!app")}, AtMost: 100, MaxSize: 1 << 20})
	require.NoError(t, err)
	require.Len(t, page.Resources, 1)
	require.Equal(t, "gateway.networking.k8s.io", page.Resources[0].Key.Kind.Group)
}

func TestAResourceAsItWas(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Put("x", "b")
	first := storetest.Value[time.Time](db, "SELECT time FROM mesh.revisions WHERE revision = 1")

	for _, at := range []store.Moment{store.When(1), {Time: first}} {
		was, err := s.GetAsOf(t.Context(), storetest.Key(t, "x"), at)
		require.NoError(t, err)
		require.JSONEq(t, string(storetest.VirtualService("a")), string(was.Spec))
		require.Equal(t, store.Revision(1), was.Revision)
	}
	is, err := s.GetAsOf(t.Context(), storetest.Key(t, "x"), store.Moment{})
	require.NoError(t, err)
	require.Equal(t, store.Revision(2), is.Revision)
	_, err = s.GetAsOf(t.Context(), storetest.Key(t, "x"), store.When(0))
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.GetAsOf(t.Context(), storetest.Key(t, "x"), store.When(3))
	require.ErrorIs(t, err, store.ErrNoHistory)
	_, err = s.GetAsOf(t.Context(), storetest.Key(t, "x"), store.Moment{Time: time.Now().Add(time.Hour)})
	require.ErrorIs(t, err, store.ErrNoHistory)
}

func TestNearNames(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("reviews", "a")
	db.Exec("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'shop', 'cart', $1)", storetest.VirtualService("cart"))

	for name, want := range map[string]string{
		"review": `did you mean "reviews"?`, "cart": `there is one in the namespace "shop"`, "nothing": "",
	} {
		near, err := s.Near(t.Context(), storetest.Key(t, name))
		require.NoError(t, err)
		require.Equal(t, want, near)
	}
	near, err := s.Near(t.Context(), storetest.Key(t, "review"), storetest.Key(t, "reviews"))
	require.NoError(t, err)
	require.Empty(t, near, "it is meant by itself")
}
