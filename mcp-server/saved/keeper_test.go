package saved_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/saved"
)

func sum(b []byte) []byte { s := sha256.Sum256(b); return s[:] }

func nowInProto() *timestamppb.Timestamp { return timestamppb.Now() }

// server is a publisher and its keeper, with a folder that outlives them.
type server struct {
	t         *testing.T
	publisher *publish.Publisher
	metrics   *prometheus.Registry
	news      *served.Subscriber
	stop      context.CancelFunc
	ended     chan error
}

func start(t *testing.T, dir string, change ...func(*saved.Options)) *server {
	t.Helper()
	s := &server{t: t, metrics: prometheus.NewRegistry(), ended: make(chan error, 1)}
	s.publisher = publish.New(s.metrics)
	s.news = s.publisher.Subscribe()
	o := saved.Options{Folder: dir, Places: places[:1], Keys: seal.None, SilenceTimeout: time.Hour, WriteDelay: time.Millisecond, MinInterval: time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	k := saved.New(s.publisher, slog.New(slog.DiscardHandler), s.metrics, o)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.ended <- k.Run(ctx) }()
	t.Cleanup(s.end)
	return s
}

// end stops the server, once.
func (s *server) end() {
	if s.stop == nil {
		return
	}
	s.stop()
	s.stop = nil
	require.ErrorIs(s.t, <-s.ended, context.Canceled)
	s.news.Close()
}

// publish publishes the complete content of the source.
func (s *server) publish(revision int64, entries ...string) {
	s.t.Helper()
	s.publisher.Begin(publish.Source{Name: publish.Database, Mesh: "m"})
	var all []*served.Resource
	for _, e := range entries {
		all = append(all, entry(s.t, e, e))
	}
	s.publisher.Replace(publish.Content{Resources: map[*kinds.Kind][]*served.Resource{serviceEntry: all}}, publish.Position{Revision: revision, Mark: "x"})
}

// serves waits for a revision, and returns the names of its entries.
func (s *server) serves(revision int64) (names []string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(s.t, s.publisher.Served(ctx, revision))
	for r := range s.news.Snapshot().Sets[serviceEntry.TypeURL()].All() {
		names = append(names, strings.TrimPrefix(r.Name, "default/"))
	}
	return names
}

// value returns the value of a counter or gauge.
func (s *server) value(name string) float64 {
	s.t.Helper()
	families, err := s.metrics.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.FailNow(s.t, "no such metric", name)
	return 0
}

var errAway = errors.New("the source is away")

func TestAServerServesWhatItServedLast(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by", "it")
	first := start(t, dir)
	first.publish(3, "a", "b")
	first.end()

	second := start(t, dir)
	require.Nil(t, second.news.Snapshot(), "the source may have something newer")
	second.publisher.Lost(errAway)
	require.Equal(t, []string{"a", "b"}, second.serves(3))
	require.Equal(t, publish.File, second.publisher.Source().Name)
	require.InDelta(t, 3, second.value("pgmesh_mcp_server_saved_revision"), 0)

	second.publish(4, "b", "c")
	require.Equal(t, []string{"b", "c"}, second.serves(4))
	second.end()

	third := start(t, dir)
	third.publisher.Lost(errAway)
	require.Equal(t, []string{"b", "c"}, third.serves(4))
	about, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), about.Mode().Perm())
}

func TestASourceThatIsSilentIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir)
	first.publish(3, "a")
	first.end()
	second := start(t, dir, func(o *saved.Options) { o.SilenceTimeout = 20 * time.Millisecond })
	require.Equal(t, []string{"a"}, second.serves(3))
}

func TestASourceThatIsThereIsServedAndNotTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir)
	first.publish(3, "a")
	first.end()
	second := start(t, dir)
	second.publish(2, "b") // the database was put back
	require.Equal(t, []string{"b"}, second.serves(2))
	second.publisher.Lost(errAway)
	require.Equal(t, "2", second.news.Snapshot().Revision)
}

// Each change is saved soon, not only at the end.
func TestAServerThatDiesHasSavedWhatItServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir)
	for revision := int64(1); revision <= 20; revision++ {
		first.publish(revision, "a")
	}
	require.Eventually(t, func() bool { return first.value("pgmesh_mcp_server_saved_revision") == 20 }, 10*time.Second, time.Millisecond)
	second := start(t, dir) // while the first runs still, or is gone for all the second knows
	second.publisher.Lost(errAway)
	require.Equal(t, []string{"a"}, second.serves(20))
}

func TestChangesThatComeFastAreWrittenTogether(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(o *saved.Options) { o.MinInterval = time.Hour })
	s.publish(1, "a")
	require.Eventually(t, func() bool { return s.value("pgmesh_mcp_server_saved_revision") == 1 }, 10*time.Second, time.Millisecond)
	for revision := int64(2); revision <= 1000; revision++ {
		s.publish(revision, "a")
	}
	s.end()
	require.InDelta(t, 1000, s.value("pgmesh_mcp_server_saved_revision"), 0)
	files, err := s.metrics.Gather()
	require.NoError(t, err)
	for _, f := range files {
		if f.GetName() == "pgmesh_mcp_server_save_seconds" {
			require.Equal(t, uint64(2), f.GetMetric()[0].GetHistogram().GetSampleCount(), "the first and the last")
		}
	}
}

func TestADamagedFileIsSetAsideAndNotServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir)
	first.publish(3, "a")
	first.end()
	file := filepath.Join(dir, "mcp-server.snapshot")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	content[len(content)/2] ^= 1
	require.NoError(t, os.WriteFile(file, content, 0o600))

	second := start(t, dir)
	second.publisher.Lost(errAway)
	second.end()
	require.Nil(t, second.publisher.State())
	require.InDelta(t, 1, second.value("pgmesh_mcp_server_saved_damaged_total"), 0)
	require.NoFileExists(t, file)
	aside, err := filepath.Glob(file + ".damaged-*")
	require.NoError(t, err)
	require.Len(t, aside, 1)
	kept, err := os.ReadFile(aside[0])
	require.NoError(t, err)
	require.Equal(t, content, kept)
}

func TestAFileFromAnotherPlaceIsNotServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir, func(o *saved.Options) { o.Places = places })
	first.publish(3, "a")
	first.end()
	second := start(t, dir, func(o *saved.Options) { o.Places = []string{"postgres://other:5432/mesh"} })
	second.publisher.Lost(errAway)
	second.end()
	require.Nil(t, second.publisher.State())
	third := start(t, dir, func(o *saved.Options) { o.Places = []string{"postgres://new:5432/mesh", places[1]} })
	third.publisher.Lost(errAway)
	require.Equal(t, []string{"a"}, third.serves(3), "one place is the same")
}

func TestAFolderThatCannotBeWrittenStopsNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a-file")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	s := start(t, dir)
	s.publish(3, "a")
	require.Eventually(t, func() bool { return s.value("pgmesh_mcp_server_save_failures_total") > 1 }, 10*time.Second, time.Millisecond,
		"it goes on trying")
	require.Equal(t, []string{"a"}, s.serves(3))
	require.NoError(t, os.Remove(dir))
	require.Eventually(t, func() bool { return s.value("pgmesh_mcp_server_saved_revision") == 3 }, 10*time.Second, time.Millisecond)
}

func TestAbandonedTemporaryFilesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, ".mcp-server.snapshot-1"), filepath.Join(dir, ".mcp-server.snapshot-2")
	require.NoError(t, os.WriteFile(old, nil, 0o600))
	require.NoError(t, os.WriteFile(fresh, nil, 0o600))
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-2*time.Hour)))
	start(t, dir)
	require.NoFileExists(t, old)
	require.FileExists(t, fresh, "somebody may be writing it")
}

func TestMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(start(t, t.TempDir()).metrics)
	require.NoError(t, err)
	require.Empty(t, problems)
}
