package publish_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

func changes(gone []string, routes ...string) publish.Changes {
	return publish.Changes{
		Upserts: map[*kinds.Kind][]*served.Resource{virtualService: resources(routes)},
		Removed: map[*kinds.Kind][]string{virtualService: gone},
	}
}

func markOf(t *testing.T, snap *served.Snapshot) string {
	t.Helper()
	return snap.Sets[mcpv1.BatchTypeURL].Get(mcpv1.BatchName).Version
}

func TestRegistriesJoinWhatTheSourceHas(t *testing.T) {
	t.Parallel()
	p := publish.New(prometheus.NewRegistry())
	p.Join("one", "two")
	news := p.Subscribe()
	defer news.Close()
	p.Begin(database)
	at := publish.Position{Revision: 7, Mark: "m"}
	p.Replace(content("ns/a@1"), at)
	require.Nil(t, news.Snapshot(), "a registry may have what clients hold")
	_, err := p.Ready()
	require.ErrorContains(t, err, "waiting for what these registries have: one, two")
	p.ApplyJoined("one", changes(nil, "ns/a@of one", "ns/b@of one"))
	p.Settle("one")
	p.ApplyJoined("two", changes(nil, "ns/b@of two", "ns/c@of two"))
	p.Settle("two")
	require.Equal(t, []string{"ns/a@1", "ns/b@of one", "ns/c@of two"}, routes(news.Snapshot()))
	first := markOf(t, news.Snapshot())
	require.Regexp(t, `^7\.m\+[0-9a-f]{16}$`, first)

	p.ApplyJoined("one", changes([]string{"ns/b"}))
	require.Equal(t, []string{"ns/a@1", "ns/b@of two", "ns/c@of two"}, routes(news.Snapshot()))
	require.NotEqual(t, first, markOf(t, news.Snapshot()), "clients wait for the mark of what has changed")
	p.ApplyJoined("one", changes(nil, "ns/b@of one"))
	require.Equal(t, first, markOf(t, news.Snapshot()), "what is the same has the same mark, at whichever server")
	p.Apply(changes([]string{"ns/a"}), publish.Position{Revision: 8, Mark: "m"})
	require.Equal(t, []string{"ns/a@of one", "ns/b@of one", "ns/c@of two"}, routes(news.Snapshot()))
	require.Equal(t, 3+1, p.State().Len(), "what is saved has everything, also what does not count")
}

func TestWhatARegistryHadIsRecalled(t *testing.T) {
	t.Parallel()
	before := publish.New(prometheus.NewRegistry())
	before.Join("one")
	before.Begin(database)
	before.ApplyJoined("one", changes(nil, "ns/a@of one"))
	before.Settle("one")
	before.Replace(content("ns/b@1"), publish.Position{Revision: 7, Mark: "m"})
	state := before.State()

	p := publish.New(prometheus.NewRegistry())
	p.Join("one", "new")
	p.Prime(state)
	has, stale := p.Joined("one")
	require.Len(t, has[virtualService], 1)
	require.Equal(t, state.Joined[0].AsOf, stale)
	p.Begin(database)
	news := p.Subscribe()
	defer news.Close()
	p.Replace(content("ns/b@2"), publish.Position{Revision: 8, Mark: "m"})
	p.Settle("one")
	p.Settle("new")
	require.Equal(t, []string{"ns/a@of one", "ns/b@2"}, routes(news.Snapshot()))
}

// Whatever changes in whichever order, what is served is the source's, and of each registry what
// nobody before it has. A change of the mesh, and a state that was resumed, are among it.
func TestLayersFollowRandomChanges(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		p := publish.New(prometheus.NewRegistry())
		p.Join("one", "two")
		p.Prime(saved("m", "ns/r0@saved", "ns/r1@saved"))
		p.Begin(database)
		p.Settle("one")
		p.Settle("two")
		source, of := map[string]string{"ns/r0": "saved", "ns/r1": "saved"}, map[string]map[string]string{"one": {}, "two": {}}
		p.Resume()
		news := p.Subscribe()
		for step := range 60 {
			name, version := fmt.Sprintf("ns/r%d", random.IntN(6)), fmt.Sprint(step)
			to, apply := source, func(c publish.Changes) { p.Apply(c, publish.Position{Revision: int64(step + 10), Mark: "m"}) }
			switch random.IntN(8) {
			case 0:
				p.Begin(publish.Source{Name: publish.Database, Mesh: fmt.Sprintf("m%d", step)})
				clear(source)
				source[name] = version
				p.Replace(content(name+"@"+version), publish.Position{Revision: 1, Mark: "n"})
				continue
			case 1, 2:
				to, apply = of["one"], func(c publish.Changes) { p.ApplyJoined("one", c) }
			case 3, 4:
				to, apply = of["two"], func(c publish.Changes) { p.ApplyJoined("two", c) }
			}
			if random.IntN(2) == 0 {
				delete(to, name)
				apply(changes([]string{name}))
			} else {
				to[name] = version
				apply(changes(nil, name+"@"+version))
			}
			require.Equal(t, merged(source, of["one"], of["two"]), routes(news.Snapshot()))
		}
		news.Close()
	}
}

func merged(layers ...map[string]string) (all []string) {
	seen := map[string]bool{}
	for _, layer := range layers {
		for name, version := range layer {
			if !seen[name] {
				seen[name] = true
				all = append(all, name+"@"+version)
			}
		}
	}
	slices.Sort(all)
	return all
}

// A client that holds on to what a registry had, because its server was not current with that, knows by
// the next mark that all has come that there is.
func TestClientsAreToldHowRegistriesStand(t *testing.T) {
	t.Parallel()
	p := publish.New(prometheus.NewRegistry())
	p.Join("one")
	news := p.Subscribe()
	defer news.Close()
	p.Begin(publish.Source{Name: publish.Upstream, Registries: []publish.RegistryStanding{{Name: "upstream's", Read: true}}})
	p.Replace(content(), publish.Position{Revision: 1, Mark: "m"})
	p.Settle("one")
	told, marks := standingOf(t, news.Snapshot()), []string{markOf(t, news.Snapshot())}
	require.Equal(t, "upstream's", told.GetRegistries()[0].GetName())
	require.Equal(t, "one", told.GetRegistries()[1].GetName())
	require.False(t, told.GetRegistries()[1].GetRead(), "it is not waited for, and was not read")
	since := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, now := range []publish.RegistryStanding{{Read: true, Servers: []string{"s"}, Meshes: []string{"m"}}, {Read: true, Stale: since}} {
		now.Name = "one"
		p.StandJoined(now)
		said := standingOf(t, news.Snapshot()).GetRegistries()[1]
		require.Equal(t, now.Read, said.GetRead())
		require.Equal(t, now.Servers, said.GetServers())
		require.Equal(t, now.Meshes, said.GetMeshes())
		require.Equal(t, !now.Stale.IsZero(), said.GetStaleSince() != nil)
		marks = append(marks, markOf(t, news.Snapshot()))
	}
	require.NotEqual(t, marks[0], marks[1])
	require.NotEqual(t, marks[1], marks[2])
}

func standingOf(t *testing.T, snap *served.Snapshot) *mcpv1.Standing {
	t.Helper()
	m := &mcpv1.Standing{}
	require.NoError(t, snap.Sets[mcpv1.StandingTypeURL].Get(mcpv1.StandingName).Body.UnmarshalTo(m))
	return m
}
