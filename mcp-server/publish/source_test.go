package publish_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// standing is what clients of a snapshot are told of its source.
func standing(t *testing.T, snap *served.Snapshot) *mcpv1.Standing {
	t.Helper()
	m := &mcpv1.Standing{}
	require.NoError(t, snap.Sets[mcpv1.StandingTypeURL].Get(mcpv1.StandingName).Body.UnmarshalTo(m))
	return m
}

var database = publish.Source{Name: publish.Database, Mesh: "m"}

func TestClientsLearnWhenTheSourceIsLostAndBack(t *testing.T) {
	t.Parallel()
	p := publish.New(prometheus.NewRegistry())
	news := p.Subscribe()
	defer news.Close()
	p.Begin(database)
	p.Replace(content("default/a@1"), publish.Position{Revision: 7, Mark: "x"})
	live := news.Snapshot()
	require.Equal(t, "m", standing(t, live).GetMesh())
	require.Equal(t, []string{p.ID()}, standing(t, live).GetPath())
	require.Nil(t, standing(t, live).GetStaleSince())

	before := time.Now()
	p.Lost(errors.New("gone"))
	lost := news.Snapshot()
	since := standing(t, lost).GetStaleSince().AsTime()
	require.WithinRange(t, since, before, time.Now())
	require.False(t, standing(t, lost).GetSaved())
	require.Equal(t, "7", lost.Revision)
	require.Same(t, live.Sets[virtualService.TypeURL()], lost.Sets[virtualService.TypeURL()])

	p.Lost(errors.New("still gone"))
	require.Same(t, lost, news.Snapshot(), "clients know already")
	require.EqualError(t, p.Source().Err, "still gone")

	p.Stand(database)
	require.Nil(t, standing(t, news.Snapshot()).GetStaleSince())
	require.Equal(t,
		live.Sets[mcpv1.StandingTypeURL].Get(mcpv1.StandingName).Version,
		news.Snapshot().Sets[mcpv1.StandingTypeURL].Get(mcpv1.StandingName).Version)
	p.Apply(publish.Changes{}, publish.Position{Revision: 8})
	require.Nil(t, standing(t, news.Snapshot()).GetStaleSince())
}

// saved is what a server kept of a mesh.
func saved(mesh string, routes ...string) *publish.State {
	return &publish.State{
		Mesh: mesh, At: publish.Position{Revision: 5, Mark: "s"}, AsOf: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Sets: map[*kinds.Kind]*served.Set{virtualService: served.NewSet(resources(routes)...)},
	}
}

func TestTheSavedStateIsServedOnlyAfterResume(t *testing.T) {
	t.Parallel()
	p := publish.New(prometheus.NewRegistry())
	news := p.Subscribe()
	defer news.Close()
	require.False(t, p.Resume(), "there is nothing")
	s := saved("m", "default/a@1")
	p.Prime(s)
	require.Nil(t, news.Snapshot())
	_, err := p.Ready()
	require.Error(t, err)

	p.Begin(database)
	p.Lost(errors.New("gone"))
	<-p.FirstResult()
	require.True(t, p.Resume())
	require.Equal(t, []string{"default/a@1"}, routes(news.Snapshot()))
	require.Equal(t, "5", news.Snapshot().Revision)
	require.Equal(t, s.AsOf, standing(t, news.Snapshot()).GetStaleSince().AsTime())
	require.True(t, standing(t, news.Snapshot()).GetSaved())
	about, err := p.Ready()
	require.NoError(t, err)
	require.Equal(t, "serving revision 5, saved 2026-01-02T03:04:05Z; gone", about)
	require.False(t, p.Resume(), "it is served already")
	require.Equal(t, s.AsOf, p.State().AsOf, "it gets no younger")
	require.Equal(t, s.At, p.State().At)
}

func TestASourceOfTheSameMeshIsComparedWithWhatWasSaved(t *testing.T) {
	t.Parallel()
	for mesh, want := range map[string][]string{"m": {"default/a@1", "default/b@2"}, "other": {"default/b@2"}} {
		p := publish.New(prometheus.NewRegistry())
		news := p.Subscribe()
		p.Prime(saved("m", "default/a@1", "default/b@1"))
		p.Begin(publish.Source{Name: publish.Database, Mesh: mesh})
		of, versions := p.Versions()
		require.Equal(t, mesh, of)
		require.Equal(t, int64(5), p.At().Revision)
		require.Equal(t, mesh == "m", versions[kinds.Key{Kind: virtualService, Namespace: "default", Name: "a"}] == "1")
		require.Equal(t, mesh == "m", p.Last(virtualService, "default/a") != nil)

		all := content("default/b@2")
		all.Kept = map[*kinds.Kind][]string{virtualService: {"default/a"}}
		p.Replace(all, publish.Position{Revision: 6})
		require.Equal(t, want, routes(news.Snapshot()))
		require.False(t, standing(t, news.Snapshot()).GetSaved())
		require.False(t, p.Resume())
		news.Close()
	}
}

// What was saved is still there to be served when a source of another mesh began and could not go
// on.
func TestASourceThatOnlyBeganTakesNothingAway(t *testing.T) {
	t.Parallel()
	p := publish.New(prometheus.NewRegistry())
	news := p.Subscribe()
	defer news.Close()
	p.Prime(saved("m", "default/a@1"))
	p.Begin(publish.Source{Name: publish.Database, Mesh: "other"})
	p.Lost(errors.New("gone"))
	require.True(t, p.Resume())
	require.Equal(t, []string{"default/a@1"}, routes(news.Snapshot()))
	require.Equal(t, "m", p.State().Mesh)
	require.Equal(t, 1, p.State().Len())
}

// Sources on other machines have other clocks, and clocks are set. What a server decides by time it
// does not decide by such.
func TestClocksThatDifferAndJump(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	p := publish.New(metrics)
	require.Contains(t, p.LastAlive().String(), " m=", "it has a reading of the clock that does not jump")
	before := p.LastAlive()
	p.Alive()
	require.False(t, p.LastAlive().Before(before))
	require.Contains(t, p.LastAlive().String(), " m=")
	require.Less(t, time.Since(p.LastAlive()), time.Hour)

	p.Begin(publish.Source{Name: publish.Upstream, Mesh: "m", Stale: time.Now().Add(time.Hour)})
	p.Replace(publish.Content{}, publish.Position{Revision: 1})
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
		# HELP pgmesh_mcp_server_stale_seconds How long ago what clients are served was known to be the newest; 0 while it is.
		# TYPE pgmesh_mcp_server_stale_seconds gauge
		pgmesh_mcp_server_stale_seconds 0
	`), "pgmesh_mcp_server_stale_seconds"))
}

func TestMetricsTellWhereItComesFrom(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	p := publish.New(metrics)
	p.Prime(saved("m"))
	p.Lost(errors.New("gone"))
	p.Resume()
	value := func(name string) float64 {
		families, err := metrics.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if len(m.GetLabel()) == 0 && f.GetName() == name || len(m.GetLabel()) == 1 && f.GetName()+"/"+m.GetLabel()[0].GetValue() == name {
					return m.GetGauge().GetValue()
				}
			}
		}
		t.Fatalf("there is no metric %s", name)
		return 0
	}
	require.InDelta(t, 1, value("pgmesh_mcp_server_source/file"), 0)
	require.InDelta(t, 0, value("pgmesh_mcp_server_source/database"), 0)
	require.InDelta(t, 5, value("pgmesh_mcp_server_revision"), 0)
	require.Greater(t, value("pgmesh_mcp_server_stale_seconds"), 1e6)
	p.Begin(database)
	p.Replace(publish.Content{}, publish.Position{Revision: 6})
	require.InDelta(t, 1, value("pgmesh_mcp_server_source/database"), 0)
	require.InDelta(t, 0, value("pgmesh_mcp_server_source/file"), 0)
	require.InDelta(t, 0, value("pgmesh_mcp_server_stale_seconds"), 0)
	problems, err := testutil.GatherAndLint(metrics)
	require.NoError(t, err)
	require.Empty(t, problems)
}
