package readers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/feed"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func kind(t *testing.T, word string) *kinds.Kind {
	t.Helper()
	k, err := kinds.ByName(word)
	require.NoError(t, err)
	return k
}

var specs = map[string]string{"VirtualService": `{"hosts": ["a"]}`, "Gateway": `{}`, "GatewayClass": `{"controllerName": "a/b"}`, "MeshConfig": `{}`}

// resource returns a resource as it is sent to clients.
func resource(t *testing.T, k *kinds.Kind, namespace, name string, labels map[string]string) *served.Resource {
	t.Helper()
	r, err := feed.Encode(&store.Resource{Key: kinds.Key{Kind: k, Namespace: namespace, Name: name}, Labels: labels, Spec: json.RawMessage(specs[k.Name])})
	require.NoError(t, err)
	return r
}

// mesh is a source that a test controls.
type mesh struct {
	t        *testing.T
	topic    served.Topic
	sets     map[string]*served.Set
	revision int
	views    *Views
}

func newMesh(t *testing.T) *mesh {
	t.Helper()
	m := &mesh{t: t, sets: map[string]*served.Set{}}
	m.views = New(m.topic.Subscribe, m.topic.Subscribe, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	return m
}

// commit publishes resources, and updates the views.
func (m *mesh) commit(k *kinds.Kind, upserts []*served.Resource, removed ...string) {
	m.t.Helper()
	m.revision++
	m.sets[k.TypeURL()] = m.sets[k.TypeURL()].With(upserts, removed)
	snap := &served.Snapshot{Revision: fmt.Sprint(m.revision), Sets: maps.Clone(m.sets)}
	snap.Sets[mcpv1.BatchTypeURL] = served.NewSet(&served.Resource{Name: mcpv1.BatchName, Version: snap.Revision + ".x"})
	snap.Sets["pgmesh.io/v1/Other"] = served.NewSet(&served.Resource{Name: "for-all", Version: "1"})
	m.topic.Publish(snap)
	m.views.advance(snap)
}

func (m *mesh) as(identity string, scopes ...string) *served.Subscriber {
	m.t.Helper()
	news, err := m.views.Subscribe(m.calling(identity, scopes...))
	require.NoError(m.t, err)
	m.t.Cleanup(news.Close)
	return news
}

func (m *mesh) calling(identity string, scopes ...string) context.Context {
	m.t.Helper()
	if len(scopes) == 0 {
		scopes = []string{"read"}
	}
	parsed, err := caller.ParseScopes(scopes)
	require.NoError(m.t, err)
	return caller.With(m.t.Context(), caller.New(identity, parsed...))
}

// shown returns the names of a kind's resources in a snapshot.
func shown(s *served.Snapshot, k *kinds.Kind) string {
	if s == nil {
		return "nothing yet"
	}
	var names []string
	for r := range s.Sets[k.TypeURL()].All() {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func mark(s *served.Snapshot) string { return s.Sets[mcpv1.BatchTypeURL].Get(mcpv1.BatchName).Version }

func all(identity string) callers.Reader {
	return callers.Reader{Identity: identity, Namespaces: []string{"*"}, Kinds: []string{"*"}}
}

// filled returns a mesh with resources of a few kinds in the namespaces a and b.
func filled(t *testing.T) *mesh {
	t.Helper()
	m := newMesh(t)
	vs, gw := kind(t, "vs"), kind(t, "gw")
	for _, ns := range []string{"a", "b"} {
		m.commit(vs, []*served.Resource{resource(t, vs, ns, "eu", map[string]string{"region": "eu"}), resource(t, vs, ns, "us", map[string]string{"region": "us"})})
		m.commit(gw, []*served.Resource{resource(t, gw, ns, "gate", nil)})
	}
	class, config := kind(t, "gatewayclass"), kind(t, "meshconfig")
	m.commit(class, []*served.Resource{resource(t, class, "", "envoy", nil)})
	m.commit(config, []*served.Resource{resource(t, config, "istio-system", "mesh", nil)})
	return m
}

func TestReadersAreShownTheirPart(t *testing.T) {
	t.Parallel()
	const me = "spiffe://mesh/me"
	vs, gw, class, config := kind(t, "vs"), kind(t, "gw"), kind(t, "gatewayclass"), kind(t, "meshconfig")
	everything := map[*kinds.Kind]string{vs: "a/eu a/us b/eu b/us", gw: "a/gate b/gate", class: "envoy", config: "istio-system/mesh"}
	for name, tt := range map[string]struct {
		rows   []callers.Reader
		scopes []string
		want   map[*kinds.Kind]string
	}{
		"without rows all that may be read": {nil, nil, everything},
		"all by a row":                      {[]callers.Reader{all("*")}, nil, everything},
		"a namespace, and what is for all": {
			[]callers.Reader{{Identity: me, Namespaces: []string{"a"}, Kinds: []string{"*"}}},
			nil,
			map[*kinds.Kind]string{vs: "a/eu a/us", gw: "a/gate", class: "envoy", config: "istio-system/mesh"},
		},
		"a kind": {
			[]callers.Reader{{Identity: me, Namespaces: []string{"*"}, Kinds: []string{"VirtualService"}}},
			nil,
			map[*kinds.Kind]string{vs: "a/eu a/us b/eu b/us"},
		},
		"labels": {
			[]callers.Reader{{Identity: me, Namespaces: []string{"*"}, Kinds: []string{"*"}, Labels: "region in (eu)"}},
			nil,
			map[*kinds.Kind]string{vs: "a/eu b/eu", class: "envoy", config: "istio-system/mesh"},
		},
		"all rows together": {
			[]callers.Reader{
				{Identity: "spiffe://mesh/*", Namespaces: []string{"a"}, Kinds: []string{"VirtualService"}, Labels: "region=eu"},
				{Identity: me, Namespaces: []string{"b"}, Kinds: []string{"Gateway.networking.istio.io"}},
				{Identity: "spiffe://mesh/another", Namespaces: []string{"*"}, Kinds: []string{"*"}},
			}, nil, map[*kinds.Kind]string{vs: "a/eu", gw: "b/gate"},
		},
		"no more than may be read": {
			[]callers.Reader{all("*")}, []string{"read:b:vs", "write:-"}, map[*kinds.Kind]string{vs: "b/eu b/us", class: "envoy", config: "istio-system/mesh"},
		},
		"rows that are not understood show nothing": {
			[]callers.Reader{{Identity: me, Namespaces: []string{"a"}, Kinds: []string{"VirtualService"}}, {Identity: me, Namespaces: []string{"*"}, Kinds: []string{"FutureKind"}}},
			nil,
			map[*kinds.Kind]string{vs: "a/eu a/us"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := filled(t)
			m.views.Show(tt.rows)
			snap := m.as(me, tt.scopes...).Snapshot()
			require.Equal(t, "6", snap.Revision)
			for _, k := range []*kinds.Kind{vs, gw, class, config} {
				require.Equal(t, tt.want[k], shown(snap, k), k.Name)
			}
			require.Equal(t, 1, snap.Sets["pgmesh.io/v1/Other"].Len())
			require.True(t, strings.HasPrefix(mark(snap), "6.x"))
		})
	}
}

func TestNothingIsShownBeforeTheRowsAreRead(t *testing.T) {
	t.Parallel()
	m := filled(t)
	waiting := m.as("spiffe://mesh/me")
	require.Nil(t, waiting.Snapshot())
	require.NotNil(t, m.as("token:ci").Snapshot(), "the scopes of a token decide alone")
	require.NotNil(t, m.as("token:ci", "read:a").Snapshot())
	m.views.Show([]callers.Reader{{Identity: "*", Namespaces: []string{"b"}, Kinds: []string{"VirtualService"}}})
	require.Equal(t, "b/eu b/us", shown(waiting.Snapshot(), kind(t, "vs")))
}

func TestReadersWithoutARowAreRefused(t *testing.T) {
	t.Parallel()
	m := filled(t)
	m.views.Show([]callers.Reader{all("spiffe://mesh/a")})
	_, err := m.views.Subscribe(m.calling("spiffe://mesh/b"))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "spiffe://mesh/b is shown nothing here: no row of mesh.readers is for it")
	_, err = m.views.Subscribe(m.calling(caller.Anonymous))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = m.views.Subscribe(t.Context())
	require.Equal(t, codes.PermissionDenied, status.Code(err), "whom no guard let in")
	// A row that this server cannot parse still counts as a row.
	m.views.Show([]callers.Reader{{Identity: "spiffe://mesh/b", Namespaces: []string{"*"}, Kinds: []string{"FutureKind"}}})
	_, err = m.views.Subscribe(m.calling("spiffe://mesh/b"))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.Equal(t, "a/eu a/us b/eu b/us", shown(m.as("token:ci").Snapshot(), kind(t, "vs")))
	local, err := m.views.Subscribe(caller.With(t.Context(), caller.Trusted()))
	require.NoError(t, err)
	require.Equal(t, "a/eu a/us b/eu b/us", shown(local.Snapshot(), kind(t, "vs")))
	local.Close()
}

func TestOpenStreamsAreMovedWhenTheRowsChange(t *testing.T) {
	t.Parallel()
	m, vs := filled(t), kind(t, "vs")
	m.views.Show(nil)
	me, other := m.as("spiffe://mesh/me"), m.as("spiffe://mesh/other")
	unrestricted := mark(me.Snapshot())
	require.Equal(t, "6.x", unrestricted)

	m.views.Show([]callers.Reader{{Identity: "spiffe://mesh/me", Namespaces: []string{"a"}, Kinds: []string{"VirtualService"}}, all("spiffe://mesh/other")})
	require.Equal(t, "a/eu a/us", shown(me.Snapshot(), vs))
	first := mark(me.Snapshot())
	require.NotEqual(t, unrestricted, first, "the client waits for the end of what the move changed")
	require.Equal(t, "a/eu a/us b/eu b/us", shown(other.Snapshot(), vs))

	m.views.Show([]callers.Reader{{Identity: "spiffe://mesh/me", Namespaces: []string{"b"}, Kinds: []string{"VirtualService"}}, all("spiffe://mesh/other")})
	require.Equal(t, "b/eu b/us", shown(me.Snapshot(), vs))
	require.NotEqual(t, first, mark(me.Snapshot()))
	m.commit(vs, []*served.Resource{resource(t, vs, "b", "new", nil)}, "b/us")
	require.Equal(t, "b/eu b/new", shown(me.Snapshot(), vs))
	require.Equal(t, "7", me.Snapshot().Revision)

	m.views.Show(nil)
	require.Equal(t, "7.x", mark(me.Snapshot()))
	before := me.Snapshot()
	m.views.Show(nil)
	require.Same(t, before, me.Snapshot(), "nothing has changed")
	m.views.Show([]callers.Reader{all("spiffe://mesh/other")})
	m.commit(vs, []*served.Resource{resource(t, vs, "a", "secret", nil)})
	require.Same(t, before, me.Snapshot(), "who has no row hears no more")
}

func TestEqualReadersShareAView(t *testing.T) {
	t.Parallel()
	m, vs, gw := filled(t), kind(t, "vs"), kind(t, "gw")
	m.views.Show([]callers.Reader{
		{Identity: "spiffe://mesh/*", Namespaces: []string{"a"}, Kinds: []string{"*"}},
		{Identity: "anonymous", Namespaces: []string{"a"}, Kinds: []string{"*"}},
	})
	one, two, three := m.as("spiffe://mesh/one"), m.as("spiffe://mesh/two"), m.as(caller.Anonymous)
	require.Same(t, one.Snapshot(), two.Snapshot())
	require.Same(t, one.Snapshot(), three.Snapshot())
	gates := one.Snapshot().Sets[gw.TypeURL()]
	m.commit(vs, []*served.Resource{resource(t, vs, "b", "new", nil)})
	require.Same(t, one.Snapshot(), two.Snapshot())
	require.Equal(t, "7", one.Snapshot().Revision, "the end of a batch comes with each revision")
	require.Same(t, gates, one.Snapshot().Sets[gw.TypeURL()], "of what has not changed nothing is made again")
	m.views.mu.Lock()
	defer m.views.mu.Unlock()
	require.Len(t, m.views.views, 1)
}

// Whatever is committed and whatever the rows become, each client is shown what a filter over
// everything would show.
func TestViewsUnderRandomChanges(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(3, 4))
	m, ks := newMesh(t), []*kinds.Kind{kind(t, "vs"), kind(t, "gw"), kind(t, "gatewayclass")}
	m.views.Show(nil)
	one := func(list ...string) string { return list[dice.IntN(len(list))] }
	identities := []string{"spiffe://mesh/a", "spiffe://mesh/b/c", caller.Anonymous}
	row := func() callers.Reader {
		return callers.Reader{
			Identity: one("*", "spiffe://mesh/*", "spiffe://mesh/b/*", "anonymous"), Namespaces: strings.Split(one("*", "x", "x,y", "z"), ","),
			Kinds: strings.Split(one("*", "VirtualService", "VirtualService,GatewayClass"), ","), Labels: one("", "", "region=eu", "region!=eu", "!region"),
		}
	}
	streams := map[string]*served.Subscriber{}
	for range 1500 {
		k := ks[dice.IntN(len(ks))]
		namespace, name := one("x", "y", "z"), one("1", "2", "3", "4", "5")
		if !k.Namespaced {
			namespace = ""
		}
		if dice.IntN(3) == 0 {
			m.commit(k, nil, kinds.Key{Kind: k, Namespace: namespace, Name: name}.FullName())
		} else {
			labels := map[string]string{"region": one("eu", "us"), "n": fmt.Sprint(dice.IntN(3))}
			if dice.IntN(3) == 0 {
				labels = nil
			}
			m.commit(k, []*served.Resource{resource(t, k, namespace, name, labels)})
		}
		if dice.IntN(20) == 0 {
			var rows []callers.Reader
			for range dice.IntN(4) {
				rows = append(rows, row())
			}
			m.views.Show(rows)
		}
		for _, identity := range identities {
			if streams[identity] != nil && dice.IntN(10) == 0 {
				streams[identity].Close()
				delete(streams, identity)
			}
			f, err := m.views.filterFor(caller.From(m.calling(identity)))
			if err != nil {
				if streams[identity] != nil { // a guard would end it
					streams[identity].Close()
					delete(streams, identity)
				}
				continue
			}
			if streams[identity] == nil {
				streams[identity], err = m.views.Subscribe(m.calling(identity))
				require.NoError(t, err)
			}
			for _, k := range ks {
				var want []string
				for r := range m.sets[k.TypeURL()].All() {
					if f.shows(k, r) {
						want = append(want, r.Name+"="+r.Version)
					}
				}
				var got []string
				for r := range streams[identity].Snapshot().Sets[k.TypeURL()].All() {
					got = append(got, r.Name+"="+r.Version)
				}
				require.True(t, slices.Equal(want, got), "%s %s: %v, %v", identity, k, want, got)
			}
		}
	}
	for _, s := range streams {
		s.Close()
	}
}
