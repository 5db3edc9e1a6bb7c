package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/collector"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// newest is the newest revision, with the id of its trace.
func (m *mesh) newest() (revision int64, trace string) {
	m.t.Helper()
	require.NoError(m.t, m.db.QueryRow(m.t.Context(), "SELECT r, mesh.trace_id(r) FROM mesh.newest_revision() r").Scan(&revision, &trace))
	return revision, trace
}

// A change is one trace, through all programs, of two machines, to what their Envoys answer.
func TestAChangeIsATraceFromTheTransactionToTheEnvoys(t *testing.T) {
	t.Parallel()
	c, database := collector.New(t), pgtest.New(t)
	control := newStack(t, database)
	control.ServerFlags("--traces-to", c.GRPC())
	control.DiscoveryFlags("--traces-to", c.HTTP(), "--log-format", "json")
	require.NoError(t, control.Start(t.Context()))
	one, two := meshOn(t, control, database, "--traces-to", c.GRPC(), "--log-format", "json"), meshOn(t, control, database, "--traces-to", c.GRPC(), "--xds", "sotw")
	one.awaitProxyState("synced")
	two.awaitProxyState("synced")
	b := newBackend(t, "v1", nil)
	one.commit(one.service(reviews, b), two.service("shared.mesh", b))
	require.NoError(t, one.wait("30s"))
	revision, id := one.newest()

	var spans []collector.Span
	poll.Eventually(t, func(context.Context) error {
		spans = c.Spans(id)
		if proxies := relayedTo(spans); len(proxies) != 2 || collector.Find(spans, "discovery/roll out").Span == nil || collector.Find(spans, "mcp-server/send").Span == nil {
			return fmt.Errorf("%d spans, of proxies %v", len(spans), proxies)
		}
		return nil
	})
	commit, rollOut := collector.Find(spans, "postgres/commit"), collector.Find(spans, "discovery/roll out")
	for _, s := range spans {
		require.Equal(t, fmt.Sprint(revision), s.Value("pgmesh.revision"))
		parent := map[string]string{
			"postgres/commit": "", "mcp-server/publish": string(commit.GetSpanId()), "mcp-server/send": string(commit.GetSpanId()),
			"discovery/roll out": string(commit.GetSpanId()), "discovery/wait": string(rollOut.GetSpanId()), "discovery/build": string(rollOut.GetSpanId()),
			"discovery/push": string(rollOut.GetSpanId()), "mesh-agent/relay": string(rollOut.GetSpanId()),
		}
		name := s.Service + "/" + s.GetName()
		require.Contains(t, parent, name)
		require.Equal(t, parent[name], string(s.GetParentSpanId()), name)
	}
	for key, want := range map[string]string{
		"pgmesh.proxies.concerned": "2", "pgmesh.proxies.ran": "2", "pgmesh.proxies.refused": "0", "pgmesh.proxies.unfinished": "0",
		"pgmesh.resources": "2", "pgmesh.kinds": "[ServiceEntry]",
	} {
		require.Equal(t, want, rollOut.Value(key), key)
	}
	require.Equal(t, "the first proxy runs it", rollOut.GetEvents()[0].GetName())
	require.Equal(t, "the last proxy runs it", rollOut.GetEvents()[1].GetName())
	require.NotEmpty(t, collector.Find(spans, "discovery/push").Value("pgmesh.translated.envoy.config.cluster.v3.Cluster.resources"))

	one.commit(envoyFilter("broken", luaThatDoesNotCompile))
	_, id = one.newest()
	spans = c.Await(t, id, "discovery/roll out", "mesh-agent/relay")
	rollOut = collector.Find(spans, "discovery/roll out")
	require.Equal(t, "proxies refuse something of it", rollOut.GetStatus().GetMessage())
	require.Equal(t, "refused", rollOut.GetEvents()[0].GetName())
	refused := slices.IndexFunc(spans, func(s collector.Span) bool { return s.Service == "mesh-agent" && s.GetStatus().GetMessage() != "" })
	require.Contains(t, spans[refused].GetStatus().GetMessage(), "'<name>' expected near 'function'")

	refusal := logged(t, control.Discovery, func(line map[string]any) bool { return line["resource"] != nil })
	revision, _ = one.newest()
	require.Contains(t, refusal["proxy"], one.namespace)
	require.Contains(t, refusal["reason"], "'<name>' expected near 'function'")
	require.InDelta(t, revision, logged(t, control.Discovery, func(line map[string]any) bool { return line["revision"] != nil })["revision"], 0)
	envoys := logged(t, one.agent, func(line map[string]any) bool { return line["from"] == "envoy" && line["level"] == "WARN" })
	require.NotEmpty(t, envoys["component"])
}

// logged returns the last line of a program's log that is wanted. All lines are JSON.
func logged(t *testing.T, p *stack.Program, wanted func(map[string]any) bool) (last map[string]any) {
	t.Helper()
	for text := range strings.Lines(p.Log()) {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line), text)
		for _, key := range []string{"time", "level", "msg"} {
			require.Contains(t, line, key, text)
		}
		if wanted(line) {
			last = line
		}
	}
	require.NotNil(t, last, p.Log())
	return last
}

// relayedTo are the proxies whose agents tell of a change.
func relayedTo(spans []collector.Span) (proxies []string) {
	for _, s := range spans {
		if s.Service == "mesh-agent" && !slices.Contains(proxies, s.Value("pgmesh.proxy")) {
			proxies = append(proxies, s.Value("pgmesh.proxy"))
		}
	}
	return proxies
}
