package files_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/source/files"
	"github.com/pgmesh/pgmesh/discovery/source/sourcetest"
	"github.com/pgmesh/pgmesh/kinds"
)

// pushedLate is a directory whose batches the test brings in force itself.
type pushedLate struct {
	*files.Directory
	t       *testing.T
	folder  string
	batches chan kinds.Batch
}

func pushLate(t *testing.T) *pushedLate {
	t.Helper()
	p := &pushedLate{t: t, folder: t.TempDir(), batches: make(chan kinds.Batch, 10)}
	p.Directory = files.New(p.folder, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	sourcetest.Run(t, p, func(b kinds.Batch) error { p.batches <- b; return nil })
	(<-p.batches).TellInForce() // the empty folder
	return p
}

// save writes a file at once, and returns the version of all files with it.
func (p *pushedLate) save(name, text string) (version string) {
	p.t.Helper()
	written := filepath.Join(p.t.TempDir(), name)
	write(p.t, written, text)
	require.NoError(p.t, os.Rename(written, filepath.Join(p.folder, name)))
	version, err := files.Version(p.folder)
	require.NoError(p.t, err)
	return version
}

// A script waits for the version to know what proxies are served. Batches wait for their push.
func TestAVersionIsToldOnceItIsInForce(t *testing.T) {
	t.Parallel()
	p := pushLate(t)
	first := p.save("a.yaml", service("a"))
	one := <-p.batches
	require.NotEqual(t, first, p.Status().Version, "no proxy is served it yet")
	one.TellInForce()
	require.Equal(t, first, p.Status().Version)

	second := p.save("a.yaml", service("b"))
	two := <-p.batches
	third := p.save("a.yaml", service("c"))
	three := <-p.batches
	require.Equal(t, first, p.Status().Version)
	two.TellInForce()
	require.Equal(t, second, p.Status().Version)
	three.TellInForce()
	require.Equal(t, third, p.Status().Version)
}

// What changes nothing comes into force with what was there before, which may still wait.
func TestOtherWordsAreInForceNoSoonerThanTheirMeaning(t *testing.T) {
	t.Parallel()
	p := pushLate(t)
	empty := p.Status().Version
	p.save("a.yaml", service("a"))
	waits := <-p.batches
	p.save("a.yaml", service("a")+"# only a comment\n")
	version := p.save("b.yaml", "][")
	require.Eventually(t, func() bool { return p.Status().Problem() != "" }, 20*time.Second, time.Millisecond, "both are read")
	require.Equal(t, empty, p.Status().Version)
	waits.TellInForce()
	require.Equal(t, version, p.Status().Version)
	require.Empty(t, p.batches)
}
