package prometheus

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/promtest"
)

func TestPrometheusTakesTheFiles(t *testing.T) {
	t.Parallel()
	for _, check := range [][]string{
		{"check", "rules", "alerts.yaml"},
		{"test", "rules", "alerts_test.yaml"},
		{"check", "config", "--syntax-only", "prometheus.yml"},
		{"check", "config", "--syntax-only", "prometheus-files.yml"},
	} {
		said, err := promtest.Promtool(t, ".", "", check...)
		require.NoError(t, err, "%v: %s", check, said)
	}
}

// The file of tests has each alert go off, and all be silent in a mesh that is well.
func TestEveryAlertIsTried(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("alerts_test.yaml")
	require.NoError(t, err)
	for _, r := range rules(t) {
		require.Contains(t, string(text), `'ALERTS{alertname="`+r.Alert+`", alertstate="firing"`, "%s never goes off", r.Alert)
	}
}
