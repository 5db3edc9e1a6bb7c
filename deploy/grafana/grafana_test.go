package grafana

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/promtest"
)

var update = flag.Bool("update", false, "write the files anew")

func TestFilesAreWhatTheDescriptionsSay(t *testing.T) {
	t.Parallel()
	for _, d := range All() {
		text, err := d.JSON()
		require.NoError(t, err)
		if *update {
			require.NoError(t, os.WriteFile(d.File, text, 0o644))
		}
		file, err := os.ReadFile(d.File)
		require.NoError(t, err)
		require.Equal(t, string(text), string(file), "%s: run go test ./deploy/grafana -update", d.File)
	}
}

// Grafana asks Prometheus, which has a parser of its own.
func TestQueriesAreWellFormed(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	rules.WriteString("groups:\n- name: queries\n  rules:\n")
	for _, d := range All() {
		for _, row := range d.Rows {
			require.NotEmpty(t, row.Panels, row.Title)
			for _, p := range row.Panels {
				require.NotEmpty(t, p.Queries, p.Title)
				for _, q := range p.Queries {
					rules.WriteString("  - {record: a, expr: '" + strings.ReplaceAll(q.Plain("1m"), "'", "''") + "'}\n")
				}
			}
		}
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(folder+"/rules.yaml", []byte(rules.String()), 0o600))
	said, err := promtest.Promtool(t, folder, "", "check", "rules", "--lint=none", "rules.yaml")
	require.NoError(t, err, said)
}
