package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/promtest"
)

// TestFromNothingToAGraph does what docs/graph-error-rates.md says, in a mesh with a service that
// fails at every fourth request.
func TestFromNothingToAGraph(t *testing.T) {
	t.Parallel()
	m := newObserved(t)
	m.commit(countsAll, m.service("ledger.mesh", newBackend(t, "ledger", func(w http.ResponseWriter, _ *http.Request, before int) bool {
		if before%4 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return before%4 == 0
	})))
	agent := m.member(m.namespace+"/cart", "cart."+m.namespace)
	_, port, _ := strings.Cut(agent.HTTP(), ":")
	folder := t.TempDir()
	commands, config, queries := m.follows(folder)
	m.prometheus = promtest.Start(t, folder, strings.NewReplacer(
		"mcp-server.example:15022/v1/scrape-targets", m.api+"/v1/scrape-targets?port="+port, "scrape_interval: 15s", "scrape_interval: 1s", "30s", "1s").Replace(config))

	for _, query := range queries {
		want := 0.25
		if strings.Contains(query, "up{") {
			want = 1
		}
		m.shows(query, want)
	}
	asking := strings.ReplaceAll(commands[len(commands)-1], "127.0.0.1:9090", m.prometheus.Address)
	output, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", asking).CombinedOutput()
	require.NoError(t, err, "%s", output)
	service, share, _ := strings.Cut(strings.TrimSpace(string(output)), "\t")
	require.Equal(t, "ledger.mesh", service)
	number, err := strconv.ParseFloat(share, 64)
	require.NoError(t, err)
	require.InDelta(t, 0.25, number, 0.15)
}

// follows runs the commands of the page that make files, and returns all commands, the
// configuration and the queries.
func (o *observed) follows(folder string) (commands []string, config string, queries []string) {
	o.t.Helper()
	page, err := os.ReadFile("../../../docs/graph-error-rates.md")
	require.NoError(o.t, err)
	for _, block := range regexp.MustCompile("(?s)```(sh|yaml|promql)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		switch block[1] {
		case "sh":
			commands = append(commands, block[2])
		case "yaml":
			config += block[2]
		case "promql":
			queries = append(queries, block[2])
		}
	}
	require.Len(o.t, commands, 2)
	for line := range strings.Lines(commands[0]) {
		command, file, into := strings.Cut(strings.TrimSpace(line), " > ")
		require.True(o.t, into, line)
		args := strings.Fields(strings.ReplaceAll(command, "'", ""))
		require.Equal(o.t, "mcp-client", args[0])
		output, err := o.ClientOutput(o.t.Context(), args[1:]...)
		require.NoError(o.t, err)
		require.NoError(o.t, os.WriteFile(filepath.Join(folder, file), output, 0o600))
	}
	return commands, config, queries
}

// shows waits until a query gives a number near to one, while requests go on.
func (o *observed) shows(query string, want float64) {
	o.t.Helper()
	eventually(o.t, func(ctx context.Context) error {
		if _, err := o.ask(ctx, request{host: "ledger.mesh"}); err != nil {
			return err
		}
		samples, err := o.prometheus.Query(ctx, query)
		if err != nil {
			return err
		}
		if len(samples) != 1 || samples[0].Value < want-0.15 || samples[0].Value > want+0.15 {
			return fmt.Errorf("%s gives %v, want about %v, of the targets %s", query, samples, want, o.prometheus.Targets(ctx))
		}
		return nil
	})
}
