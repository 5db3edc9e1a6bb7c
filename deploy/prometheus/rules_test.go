package prometheus

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type rule struct {
	Alert, Expr, For string

	Labels      struct{ Severity string }
	Annotations struct {
		Summary, Description string

		Runbook string `yaml:"runbook_url"`
	}
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.Open("alerts.yaml")
	require.NoError(t, err)
	defer text.Close()
	decoder := yaml.NewDecoder(text)
	decoder.KnownFields(true)
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	require.NoError(t, decoder.Decode(&file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// code is that of the programs, in which the names of metrics stand in full.
func code(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, program := range []string{"mcp-server", "discovery", "mesh-agent", "internal"} {
		require.NoError(t, filepath.WalkDir("../../"+program, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}))
	}
	return all.String()
}

func TestAlertsAreAboutMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	made := code(t)
	for _, r := range rules(t) {
		names := regexp.MustCompile(`pgmesh_\w+|istio_\w+|\bup\b`).FindAllString(r.Expr, -1)
		require.NotEmpty(t, names, r.Alert)
		for _, name := range names {
			if strings.HasPrefix(name, "pgmesh_") { // Prometheus makes up itself, and Envoy those of Istio
				require.Contains(t, made, `"`+strings.TrimSuffix(name, "_bucket")+`"`, "%s is about a metric that nothing makes", r.Alert)
			}
		}
	}
}

const (
	guide   = "../../docs/operators-guide.md"
	runbook = "https://github.com/pgmesh/pgmesh/blob/main/docs/operators-guide.md#"
)

func TestAlertsSayWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range rules(t) {
		require.Regexp(t, `^Pgmesh[A-Za-z]+$`, r.Alert)
		require.False(t, seen[r.Alert], "there are two of %s", r.Alert)
		seen[r.Alert] = true
		require.Contains(t, []string{"warning", "critical"}, r.Labels.Severity, r.Alert)
		require.True(t, r.For != "" || strings.Contains(r.Expr, "increase("), "%s goes off at once: give it a for", r.Alert)
		require.NotEmpty(t, r.Annotations.Summary, r.Alert)
		require.Greater(t, len(r.Annotations.Description), 80, "%s does not say what to do", r.Alert)
	}
}

// The guide has a section for each alert, in their order, which says how bad it is, what to look at and
// what to do. The alert leads there.
func TestTheGuideHasEachAlert(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(guide)
	require.NoError(t, err)
	_, about, found := strings.Cut(string(page), "\n## Alerts\n")
	require.True(t, found)
	sections := strings.Split(about, "\n### ")[1:]
	all := rules(t)
	require.Len(t, sections, len(all))
	for i, r := range all {
		title, body, _ := strings.Cut(sections[i], "\n")
		require.Equal(t, r.Alert, title)
		require.Equal(t, runbook+strings.ToLower(title), r.Annotations.Runbook)
		require.Regexp(t, `(?i)^\n\*`+r.Labels.Severity+`\.\* `, body, title)
		for _, part := range []string{"First:", "Then:", "Wake somebody?"} {
			require.Contains(t, body, "\n- **"+part+"** ", title)
		}
	}
}
