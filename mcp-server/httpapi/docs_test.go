package httpapi_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/trust"
	"github.com/pgmesh/pgmesh/store/rollout"
)

const page = "../../docs/admin-api.md"

var update = flag.Bool("update", false, "write what the examples answer to "+page)

// example is a block of commands, and the block after it, if there is one, with what they answer.
var example = regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n(?:\n```(?:json|yaml|text)\n(.*?)^```\n)?")

// times are different each time.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// The examples in the docs do what the docs say. They run in order, on their own server, as a
// reader would type them.
func TestPage(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the examples need " + program)
		}
	}
	doc, err := os.ReadFile(page)
	require.NoError(t, err)
	a := start(t)
	a.ratify()
	a.report()
	folder := t.TempDir()
	at := 0
	var rewritten bytes.Buffer
	for _, m := range example.FindAllSubmatchIndex(doc, -1) {
		line := 1 + bytes.Count(doc[:m[2]], []byte("\n"))
		got := a.run(folder, string(doc[m[2]:m[3]]))
		if m[4] < 0 {
			continue
		}
		rewritten.Write(doc[at:m[4]])
		rewritten.WriteString(got)
		at = m[5]
		if !*update {
			require.Empty(t, cmp.Diff(string(doc[m[4]:m[5]]), got), "%s:%d answers otherwise; go test ./mcp-server/httpapi -run TestPage -update writes what it answers", page, line)
		}
	}
	if *update {
		rewritten.Write(doc[at:])
		require.NoError(t, os.WriteFile(page, rewritten.Bytes(), 0o644))
	}
}

// ratify gives the mesh an authority, as a server with TLS does.
func (a *api) ratify() {
	a.t.Helper()
	s, err := store.Open(a.t.Context(), a.database, store.Options{})
	require.NoError(a.t, err)
	defer s.Close()
	_, err = trust.New(s).FirstAuthority(a.t.Context(), certtest.NewAuthority(a.t).PEM, "sealed", "")
	require.NoError(a.t, err)
}

// report has a discovery report two proxies.
func (a *api) report() {
	a.t.Helper()
	s, err := store.Open(a.t.Context(), a.database, store.Options{})
	require.NoError(a.t, err)
	a.t.Cleanup(s.Close)
	keeper, err := rollout.New(s).Keep(a.t.Context(), "eu-mcp")
	require.NoError(a.t, err)
	a.t.Cleanup(func() { keeper.Close(context.Background()) })
	id, err := keeper.Begin(a.t.Context(), "eu-1")
	require.NoError(a.t, err)
	cart := rollout.Description{Node: "sidecar", Proxy: "cart.shop", Namespace: "shop", Role: "sidecar", Labels: map[string]string{"app": "cart"}, Addresses: []string{"10.0.0.7"}, Agent: "1.0.0", Connected: time.Now()}
	pay := cart
	pay.Proxy, pay.Labels = "pay.shop", map[string]string{"app": "pay"}
	reviews := rollout.Resource{Group: "networking.istio.io", Kind: "VirtualService", Namespace: "shop", Name: "reviews"}
	refusal := rollout.Refusal{TypeURL: "type.googleapis.com/envoy.config.listener.v3.Listener", Resource: "10.0.0.1_80", Reason: "no such filter", Sources: []rollout.Source{{Resource: reviews}}}
	require.NoError(a.t, keeper.Report(a.t.Context(), id, rollout.Message{
		Number: 1, Revision: 3, Audiences: []rollout.Audience{{Resource: reviews, Everyone: true}},
		Proxies: []rollout.Proxy{
			{Stream: 1, Description: &cart, State: rollout.Synced},
			{Stream: 2, Description: &pay, State: rollout.Refused, Sent: 3, Runs: 2, Refused: 1, Refusals: []rollout.Refusal{refusal}},
		},
		Rollouts: []rollout.Rollout{{Revision: 3, After: 2, Began: time.Now(), Parts: []rollout.Part{{Namespace: "shop", Concerned: 2, Ran: 1, Refused: 1, Took: []uint64{4200}}}}},
	}))
}

// run runs commands in a shell and returns their output, with the times of the documented page.
func (a *api) run(folder, commands string) string {
	a.t.Helper()
	commands = regexp.MustCompile(`/tmp/`).ReplaceAllLiteralString(commands, folder+"/")
	cmd := exec.CommandContext(a.t.Context(), "bash", "-euc", commands)
	cmd.Env = append(os.Environ(), "API="+a.url)
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	require.NoError(a.t, err, "%s\n%s%s", commands, out, &wrong)
	require.NotEmpty(a.t, out, commands)
	return times.ReplaceAllString(string(out), "2026-05-01T12:00:00Z")
}
