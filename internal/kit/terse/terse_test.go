package terse_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/terse"
)

func TestATextIsCutBetweenRunes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", terse.Text("short", 5))
	require.Equal(t, "sho… (2 bytes more)", terse.Text("short", 3))
	require.Equal(t, "ä… (2 bytes more)", terse.Text("ää", 3))
	for most := range 12 {
		require.True(t, utf8.ValidString(terse.Text("aä€😀€ä", most)), most)
	}
	require.Less(t, len(terse.Text(strings.Repeat("\x80", 1000), 500)), 540)
}

// logged is what a logger has written.
type logged struct {
	*slog.Logger

	text *bytes.Buffer
}

func newLogged() logged {
	text := &bytes.Buffer{}
	return logged{slog.New(terse.NewHandler(slog.NewJSONHandler(text, nil))), text}
}

func (l logged) lines(t *testing.T) (lines []map[string]any) {
	t.Helper()
	for decoder := json.NewDecoder(bytes.NewReader(l.text.Bytes())); decoder.More(); {
		line := map[string]any{}
		require.NoError(t, decoder.Decode(&line))
		lines = append(lines, line)
	}
	return lines
}

type worded struct{ text string }

func (w worded) LogValue() slog.Value { return slog.StringValue(w.text) }

func TestWhateverIsLoggedIsShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4<<20)
	for name, value := range map[string]any{
		"text": long, "error": fmt.Errorf("refused: %w", errors.New(long)), "bytes": []byte(long), "list": []string{"a", long}, "value": worded{long},
		"group": slog.GroupValue(slog.String("in", long)), "record": struct{ Text string }{long},
	} {
		l := newLogged()
		l.Warn("somebody says", "node", "n", "reason", value)
		l.With("reason", value).Info("somebody says")
		require.Less(t, l.text.Len(), 8<<10, name)
		require.Contains(t, l.text.String(), "bytes more)", name)
		require.Len(t, l.lines(t), 2)
	}
	l := newLogged()
	l.Warn(long)
	require.Less(t, l.text.Len(), 4<<10)
}

func TestWhatIsShortIsLoggedAsItIs(t *testing.T) {
	t.Parallel()
	l := newLogged()
	l.WithGroup("g").With("a", 1).Warn("said", "node", "n", "list", []string{"a", "b"}, "at", time.Second, "error", errors.New("no"), "nothing", nil)
	require.Equal(t, map[string]any{"a": 1.0, "node": "n", "list": []any{"a", "b"}, "at": 1e9, "error": "no", "nothing": nil}, l.lines(t)[0]["g"])
}

func TestTheSameComplaintIsCountedAndNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLogged()
		for i := range 5000 {
			l.Warn("a client refused a response", "node", "loud", "reason", fmt.Sprint("another each time ", i))
		}
		l.Warn("a client refused a response", "node", "quiet", "reason", "a good one")
		l.Warn("something else", "node", "loud")
		require.Len(t, l.lines(t), 12)
		require.Contains(t, l.text.String(), "a good one", "others are heard")

		time.Sleep(11 * time.Second) // of the test's own clock
		synctest.Wait()
		told := l.lines(t)
		require.Len(t, told, 13)
		require.Equal(t, "WARN", told[12]["level"])
		require.Equal(t, "a client refused a response", told[12]["msg"])
		require.InDelta(t, 4990, told[12]["not_logged"], 0)
		require.Equal(t, "loud", told[12]["most_by"])

		l.Warn("a client refused a response", "node", "loud")
		require.Len(t, l.lines(t), 14, "later it is logged again")
	})
}

func TestManyWhoComplainAreCountedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, reason := newLogged(), strings.Repeat("r", 1<<20)
		for i := range 50_000 {
			l.With("sink", fmt.Sprint("made up ", i)).Error("a sink refused a collection", "reason", reason)
		}
		require.Len(t, l.lines(t), 100)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Len(t, l.lines(t), 101)
		require.InDelta(t, 49_900, l.lines(t)[100]["not_logged"], 0)
		require.Less(t, l.text.Len(), 300<<10)
	})
}

func TestWhatIsDoneIsLoggedEachTime(t *testing.T) {
	t.Parallel()
	l := newLogged()
	for range 5000 {
		l.Info("issued a certificate", "identity", "spiffe://mesh/ns/a/sa/b")
	}
	require.Len(t, l.lines(t), 5000)
}

func TestLibrariesAreHeardShortly(t *testing.T) {
	t.Parallel()
	l := newLogged()
	n, err := fmt.Fprintf(terse.Writer{Log: l.Logger}, "http: TLS handshake error from 10.0.0.1:5: EOF\n")
	require.NoError(t, err)
	require.Positive(t, n)
	require.Equal(t, "http: TLS handshake error from 10.0.0.1:5: EOF", l.lines(t)[0]["text"])
	for range 5000 {
		_, _ = terse.Writer{Log: l.Logger}.Write([]byte(strings.Repeat("x", 10<<10)))
	}
	require.Less(t, len(l.lines(t)), 2000)
}
