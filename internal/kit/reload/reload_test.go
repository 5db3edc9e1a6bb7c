package reload_test

import (
	"bytes"
	"context"
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
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

const (
	limit = 20 * time.Second
	step  = 10 * time.Millisecond // Fresh checks when it is called: there is no event
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// join reads files of words; the word "bad" is none.
func join(contents [][]byte) (string, error) {
	text := string(bytes.Join(contents, []byte("+")))
	if strings.Contains(text, "bad") {
		return "", errors.New("bad is not a word")
	}
	return text, nil
}

type folder struct {
	t       *testing.T
	a, b    string
	value   *reload.Value[string]
	log     *bytes.Buffer
	metrics *prometheus.Registry
	changed chan struct{}
}

func load(t *testing.T) *folder {
	t.Helper()
	dir := t.TempDir()
	f := &folder{
		t: t, a: filepath.Join(dir, "a"), b: filepath.Join(dir, "b"),
		log: &bytes.Buffer{}, metrics: prometheus.NewRegistry(), changed: make(chan struct{}, 10),
	}
	certtest.WriteFile(t, f.a, []byte("one"))
	certtest.WriteFile(t, f.b, []byte("two"))
	var err error
	f.value, err = reload.Load(reload.Options{
		What: "words", Log: slog.New(slog.NewTextHandler(f.log, nil)), Metrics: reload.NewMetrics(f.metrics, reload.Names{Unusable: "files_unusable", Loaded: "files_loaded_total"}),
		Changed: func() { f.changed <- struct{}{} },
	}, join, f.a, f.b)
	require.NoError(t, err)
	return f
}

func (f *folder) metric(lines string) {
	f.t.Helper()
	require.NoError(f.t, testutil.GatherAndCompare(f.metrics, strings.NewReader(`
# HELP files_loaded_total How often files were read because they had changed, by whether they could be used.
# TYPE files_loaded_total counter
# HELP files_unusable 1 while files as they are now cannot be used, and what was made of earlier ones is in force.
# TYPE files_unusable gauge
`+lines)))
}

func TestWhatIsNewIsTakenOver(t *testing.T) {
	t.Parallel()
	f := load(t)
	require.Equal(t, "one+two", f.value.Get())
	f.value.Look()
	require.Empty(t, f.changed, "nothing has changed")
	certtest.WriteFile(t, f.b, []byte("three"))
	f.value.Look()
	require.Equal(t, "one+three", f.value.Get())
	require.Len(t, f.changed, 1)
	f.metric(`files_loaded_total{outcome="used",what="words"} 2
files_unusable{what="words"} 0
`)
}

func TestWhatCannotBeUsedChangesNothingAndIsSaidOnce(t *testing.T) {
	t.Parallel()
	f := load(t)
	certtest.WriteFile(t, f.a, []byte("bad"))
	f.value.Look()
	f.value.Look()
	require.Equal(t, "one+two", f.value.Get())
	require.Equal(t, 1, strings.Count(f.log.String(), "bad is not a word"))
	f.metric(`files_loaded_total{outcome="unusable",what="words"} 1
files_loaded_total{outcome="used",what="words"} 1
files_unusable{what="words"} 1
`)
	require.NoError(t, os.Remove(f.a))
	f.value.Look()
	f.value.Look()
	require.Equal(t, 1, strings.Count(f.log.String(), "no such file"))
	require.Equal(t, "one+two", f.value.Get())
	certtest.WriteFile(t, f.a, []byte("one"))
	f.value.Look()
	f.metric(`files_loaded_total{outcome="unusable",what="words"} 2
files_loaded_total{outcome="used",what="words"} 2
files_unusable{what="words"} 0
`)
	require.Equal(t, "one+two", f.value.Get())
}

func TestTheFirstFilesHaveToBeUsable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	_, err := reload.Load(reload.Options{What: "words"}, join, path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "words: open "+path)
	certtest.WriteFile(t, path, []byte("bad"))
	_, err = reload.Load(reload.Options{What: "words"}, join, path)
	require.EqualError(t, err, "words: bad is not a word")
}

func TestRunLooksByItself(t *testing.T) {
	t.Parallel()
	f := load(t)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- f.value.Run(ctx) }()
	certtest.WriteFile(t, f.a, []byte("four"))
	<-f.changed
	require.Equal(t, "four+two", f.value.Get())
	cancel()
	require.ErrorIs(t, <-ran, context.Canceled)
	certtest.WriteFile(t, f.a, []byte("five"))
	require.Eventually(t, func() bool { return f.value.Fresh() == "five+two" }, limit, step)
}
