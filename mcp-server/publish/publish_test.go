package publish_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var virtualService = kind("VirtualService")

func kind(name string) *kinds.Kind {
	k, err := kinds.ByName(name)
	if err != nil {
		panic(err)
	}
	return k
}

// content is what a source has that has these routes, each of a name and a version.
func content(routes ...string) publish.Content {
	return publish.Content{Resources: map[*kinds.Kind][]*served.Resource{virtualService: resources(routes)}}
}

func resources(routes []string) (all []*served.Resource) {
	for _, r := range routes {
		name, version, _ := strings.Cut(r, "@")
		all = append(all, &served.Resource{Name: name, Version: version})
	}
	return all
}

// routes lists what a snapshot has.
func routes(snap *served.Snapshot) (all []string) {
	for r := range snap.Sets[virtualService.TypeURL()].All() {
		all = append(all, r.Name+"@"+r.Version)
	}
	return all
}

func TestItIsReadyOnceItHasSomething(t *testing.T) {
	t.Parallel()
	p := publish.New(prometheus.NewRegistry())
	news := p.Subscribe()
	defer news.Close()
	_, err := p.Ready()
	require.ErrorContains(t, err, "not loaded yet")
	require.Nil(t, news.Snapshot())
	require.Nil(t, p.State())

	why := errors.New("the source is away")
	p.Lost(why)
	_, err = p.Ready()
	require.ErrorIs(t, err, why)
	require.Nil(t, news.Snapshot())

	p.Begin(publish.Source{Name: publish.Database, Mesh: "m"})
	p.Replace(publish.Content{}, publish.Position{})
	about, err := p.Ready()
	require.NoError(t, err)
	require.Empty(t, about)
	require.Empty(t, routes(news.Snapshot()))

	p.Lost(why)
	about, err = p.Ready()
	require.NoError(t, err, "what it has it goes on serving")
	require.Regexp(t, `^serving revision 0, the newest of 20.*Z; the source is away$`, about)
}

func TestUnchangedSetsAreShared(t *testing.T) {
	t.Parallel()
	p := publish.New(prometheus.NewRegistry())
	news := p.Subscribe()
	defer news.Close()
	p.Replace(content("default/a@1", "default/b@1"), publish.Position{Revision: 1, Mark: "x"})
	first := news.Snapshot()

	p.Replace(content("default/b@1", "default/a@1"), publish.Position{Revision: 2, Mark: "y"})
	second := news.Snapshot()
	require.Same(t, first.Sets[virtualService.TypeURL()], second.Sets[virtualService.TypeURL()])
	require.Equal(t, "2", second.Revision)
	require.Equal(t, "2.y", second.Sets[mcpv1.BatchTypeURL].Get(mcpv1.BatchName).Version)

	p.Apply(publish.Changes{
		Upserts: map[*kinds.Kind][]*served.Resource{virtualService: resources([]string{"default/c@1"})},
		Removed: map[*kinds.Kind][]string{virtualService: {"default/a"}},
	}, publish.Position{Revision: 3, Mark: "z"})
	require.Equal(t, []string{"default/b@1", "default/c@1"}, routes(news.Snapshot()))
	require.Equal(t, []string{"default/a@1", "default/b@1"}, routes(second), "a snapshot is immutable")
}

func TestResourcesThatCannotBeServedKeepTheirLastState(t *testing.T) {
	t.Parallel()
	p := publish.New(prometheus.NewRegistry())
	news := p.Subscribe()
	defer news.Close()
	p.Replace(content("default/a@1", "default/b@1", "default/c@1"), publish.Position{Revision: 1})

	next := content("default/b@2")
	next.Kept = map[*kinds.Kind][]string{virtualService: {"default/a", "default/never-had"}}
	p.Replace(next, publish.Position{Revision: 2})
	require.Equal(t, []string{"default/a@1", "default/b@2"}, routes(news.Snapshot()))
}

func TestEveryAliasOfAKindIsServed(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.All() {
		for _, url := range k.TypeURLs() {
			require.Equal(t, k.TypeURL(), publish.Canonical(url))
			require.Equal(t, k.TypeURL(), publish.Label(url))
		}
	}
	require.Equal(t, "a/b/C", publish.Canonical("a/b/C"))
	require.Equal(t, "unknown", publish.Label(strings.Repeat("x", 1000)))
}
