package envoylog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoylog"
)

func TestEnvoysLinesHaveTheFormOfOurOwn(t *testing.T) {
	t.Setenv("TZ", "UTC")
	var out bytes.Buffer
	w := envoylog.Formed(program.JSONLines(&out, slog.LevelDebug))
	fmt.Fprint(w, "[2026-11-26 12:13:14.156][4711][warning][config] [source/common/config/x.cc:42] a \"quoted\" warning\n\n[2026-11-26 12:13:14.157][4711][crit")
	fmt.Fprint(w, "ical][main] it dies\n\tat some address\n"+strings.Repeat("x", 1<<20)+"\n")
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		lines = append(lines, l)
	}
	require.Len(t, lines, 4)
	require.Regexp(t, `^2026-11-2.T..:..:14.156Z$`, lines[0]["time"])
	delete(lines[0], "time")
	require.Equal(t, map[string]any{"level": "WARN", "msg": `a "quoted" warning`, "from": "envoy", "component": "config", "source": "source/common/config/x.cc:42"}, lines[0])
	require.Equal(t, []any{"ERROR", "it dies", "main", nil}, []any{lines[1]["level"], lines[1]["msg"], lines[1]["component"], lines[1]["source"]})
	require.Equal(t, []any{"ERROR", "\tat some address"}, []any{lines[2]["level"], lines[2]["msg"]}, "it belongs to the line before")
	require.Len(t, lines[3]["msg"], 64<<10)
}
