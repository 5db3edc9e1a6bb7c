package program_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/program"
)

// A peer's message may be forty megabytes long, and there may be a thousand a second.
func TestLogsOfPeersAreBounded(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			cmd := &cobra.Command{}
			cmd.Flags().String("log-format", format, "")
			var out bytes.Buffer
			log := program.LogTo(cmd, &out)
			for range 1000 {
				log.Warn("a proxy refuses what it was sent", "node", "cart", "error", strings.Repeat("x", 1<<20))
			}
			require.Contains(t, out.String(), "a proxy refuses what it was sent")
			require.Less(t, out.Len(), 1<<16, "a thousand complaints of a mebibyte each")
		})
	}
}

// Who collects the logs of all programs looks for one name and one form of a value.
func TestValuesAreAlikeInAllLines(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 6, 6, 7, 8000000, time.FixedZone("elsewhere", 3600))
	line := func(format string) string {
		cmd := &cobra.Command{}
		cmd.Flags().String("log-format", format, "")
		var out bytes.Buffer
		r := slog.NewRecord(at, slog.LevelWarn, "a proxy refuses", 0)
		r.Add("revision", "12", "sent", int64(12), "after", 1500*time.Millisecond, "since", at, "error", errors.New("no"))
		require.NoError(t, program.LogTo(cmd, &out).Handler().Handle(t.Context(), r))
		return out.String()
	}
	require.JSONEq(t, `{"time": "2026-03-04T05:06:07.008Z", "level": "WARN", "msg": "a proxy refuses",
		"revision": 12, "sent": 12, "after": "1.5s", "since": "2026-03-04T05:06:07.008Z", "error": "no"}`, line("json"))
	require.Equal(t, "time=2026-03-04T05:06:07.008Z level=WARN msg=\"a proxy refuses\" revision=12 sent=12 after=1.5s since=2026-03-04T05:06:07.008Z error=no\n", line("text"))
	require.Contains(t, line("xml"), "time=", "text is what there is otherwise")
}

// Who mistypes a flag is told which one was meant, and where all of them stand.
func TestAMistypedFlag(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--log-formt": "unknown flag: --log-formt (did you mean --log-format?) (see server run --help)",
		"--nonsense":  "unknown flag: --nonsense (see server run --help)",
		"-x":          "unknown shorthand flag: 'x' in -x (see server run --help)",
	} {
		root := program.New("server", "Serve")
		root.AddCommand(&cobra.Command{Use: "run", RunE: func(*cobra.Command, []string) error { return nil }})
		root.SetArgs([]string{"run", flag})
		require.EqualError(t, root.Execute(), want)
	}
}

// Who is used to one of --version and version has the other, too.
func TestVersionIsACommandAsWell(t *testing.T) {
	t.Parallel()
	said := func(args ...string) (string, error) {
		root := program.New("server", "Serve")
		root.RunE = func(*cobra.Command, []string) error { return errors.New("it serves") }
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(args)
		err := root.Execute()
		return out.String(), err
	}
	flag, err := said("--version")
	require.NoError(t, err)
	require.Equal(t, "server version "+program.Version()+"\n", flag)
	command, err := said("version")
	require.NoError(t, err)
	require.Equal(t, flag, command)

	text, err := said("version", "-o", "json")
	require.NoError(t, err)
	var build map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &build))
	require.Equal(t, runtime.Version(), build["go"])
	require.Contains(t, flag, build["version"])
	_, err = said("version", "-o", "yaml")
	require.ErrorContains(t, err, "-o yaml: choose text or json")
}
