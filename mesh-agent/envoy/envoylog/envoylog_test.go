package envoylog_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoylog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writer opens the file again and appends, as Envoy does.
func writer(t *testing.T, l *envoylog.Log) *os.File {
	t.Helper()
	_, stderr := l.Files()
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", stderr.Fd()), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	t.Cleanup(func() { again.Close() })
	return again
}

func open(t *testing.T, folder string, to *journal.Journal, log *bytes.Buffer) *envoylog.Log {
	t.Helper()
	l, err := envoylog.Open(folder, nil, to, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// room is the file's size on disk.
func room(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestReadLinesTakeNoRoom(t *testing.T) {
	t.Parallel()
	folder, heard := t.TempDir(), &journal.Journal{}
	l := open(t, folder, heard, &bytes.Buffer{})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, l.Run(ctx)) })
	w := writer(t, l)
	line := strings.Repeat("x", 999) + "\n"
	for range 4000 {
		_, err := w.WriteString(line)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(heard.String()) == 4000*1000 }, 20*time.Second, time.Millisecond)
	stop()
	running.Wait()
	require.LessOrEqual(t, room(t, filepath.Join(folder, "stderr")), int64(128<<10))
}

func TestNextReaderResumes(t *testing.T) {
	t.Parallel()
	folder, first, second := t.TempDir(), &journal.Journal{}, &journal.Journal{}
	l := open(t, folder, first, &bytes.Buffer{})
	w := writer(t, l)
	long := strings.Repeat("long ", 50_000) + "\n"
	_, err := w.WriteString("one\ntwo\n" + long + "half")
	require.NoError(t, err)
	l.CatchUp()
	require.Equal(t, "one\ntwo\n"+long, first.String(), "half a line waits for the other half")

	_, err = w.WriteString(" a line\nthree\n")
	require.NoError(t, err)
	l = open(t, folder, second, &bytes.Buffer{})
	l.CatchUp()
	require.Equal(t, "half a line\nthree\n", second.String())
	l.CatchUp()
	require.Equal(t, "half a line\nthree\n", second.String())

	_, err = w.WriteString("the last word")
	require.NoError(t, err)
	l.Clear()
	require.Equal(t, "half a line\nthree\nthe last word\n", second.String())
	info, err := os.Stat(filepath.Join(folder, "stderr"))
	require.NoError(t, err)
	require.Zero(t, info.Size())
	_, err = w.WriteString("anew\n")
	require.NoError(t, err)
	l.CatchUp()
	require.True(t, strings.HasSuffix(second.String(), "the last word\nanew\n"))
}

func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	folder, heard, log := t.TempDir(), &journal.Journal{}, &bytes.Buffer{}
	path := filepath.Join(folder, "stderr")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte(strings.Repeat("y", 99)+"\n"), 200_000), 0o600))
	l := open(t, folder, heard, log)
	l.CatchUp()
	require.Contains(t, log.String(), "Envoy wrote much while no agent was here; the older part is left out")
	require.InDelta(t, 8<<20, len(heard.String()), 100)
	require.LessOrEqual(t, room(t, path), int64(128<<10))
}
