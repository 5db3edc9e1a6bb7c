package proxies_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

func TestProxiesOfTheMesh(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	r := m.Run("proxy-status")
	require.Zero(t, r.Code)
	require.Contains(t, r.Err, "no discovery reports such a proxy to "+m.Address+". A discovery tells of its own proxies: --discovery http://127.0.0.1:15014")
	require.Equal(t, "[]\n", m.OK("proxy-status", "-o", "json"))

	m.Report(m.Store())
	r = m.Run("proxy-status")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "error: there are proxies that refuse what they were sent")
	require.Regexp(t, `(?m)\ANAMESPACE +PROXY +STATE +RUNS +SENT +REFUSED +DISCOVERY +AGE
bank +gate.bank +away +8 +8 +0 +eu-1 +\d+s
shop +cart.shop +synced +8 +8 +0 +eu-1 +\d+s
shop +pay.shop +refused +7 +8 +2 +eu-1 +\d+s
\z`, r.Out)
	require.Regexp(t, `(?m)^bank +gate.bank .* router +default +1.40.0 +- +delta +- +- +10.0.0.1,fd00::1 +eu-mcp +\d{4}-`, m.OK("ps", "-n", "bank", "-o", "wide"))
	require.Equal(t, "cart.shop\n", m.OK("ps", "-A", "--state", "synced", "-o", "name"))
	r = m.Run("ps", "-n", "shop", "-o", "json")
	require.Equal(t, 1, r.Code)
	var tree []map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.Out), &tree))
	require.Len(t, tree, 2)
	require.Equal(t, map[string]any{"app": "pay"}, tree[1]["labels"])
	require.InEpsilon(t, 7, tree[1]["runs"], 0)
	r = m.Run("ps", "--state", "well")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, `state: a proxy is never "well": give one of synced, sending, refused, silent, away`)
}

// What a discovery finds out, everybody can ask mcp-server for.
func TestADiscoveryReportsItsProxies(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("shop", "web", "web.shop"))
	d := clitest.Discover(t, serve.Sources{MCP: serve.MCP{Addresses: []string{m.Address}, Protocol: mcp.Auto}})
	d.Connect(vm1, "", push.ClusterType, push.ListenerType)
	d.Connect(vm2, push.ClusterType, push.ClusterType)
	poll.Within(t, 30*time.Second, func(context.Context) error {
		r := m.Run("proxy-status")
		if shown := regexp.MustCompile(`(?m)^shop +vm-1.shop +synced +1 +1 +0 .*\nshop +vm-2.shop +refused +- +1 +[1-9]`); !shown.MatchString(r.Out) {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
}

// A discovery is asked where one is named, unless the command line is about the mesh.
func TestWhoIsAskedForProxies(t *testing.T) {
	t.Parallel()
	m, d := clitest.Start(t), shop(t)
	m.Report(m.Store())
	d.Connect(vm1, "", push.ClusterType)
	d.Until(func(r clitest.Result) bool { return r.Out != "" }, "proxy-status")
	at := d.At.HTTP.String()
	configured := clitest.NewConfigured(t)
	configured.OK("context", "set", "here", "--insecure", "--server", m.Address, "--discovery", at)
	mesh, one := "gate.bank\n", "vm-1.shop\n"
	for _, c := range []struct {
		by   string // the variable or the context that names the discovery
		want string
		args []string
	}{
		{"", mesh, []string{"-n", "bank"}},
		{"variable", one, nil},
		{"variable", mesh, []string{"-n", "bank"}},
		{"context", one, nil},
		{"context", one, []string{"vm-1"}},
		{"context", mesh, []string{"-A", "--state", "away"}},
		{"context", mesh, []string{"--state", "away"}},
		{"", one, []string{"--discovery", at}},
		{"", one, []string{"--discovery", at, "-n", "bank"}},
		{"", one, []string{"--discovery", at, "vm-1"}},
	} {
		args := append([]string{"proxy-status", "-o", "name"}, c.args...)
		env := map[string]string{"PGMESH_SERVER": m.Address, "PGMESH_INSECURE": "true"}
		switch c.by {
		case "variable":
			env["PGMESH_DISCOVERY"] = at
		case "context":
			env = configured.Env
		}
		r := clitest.Run(t.Context(), "", env, args...)
		require.Zero(t, r.Code, "%v: %s", c, r.Err)
		require.Equal(t, c.want, r.Out, c)
	}
	for _, args := range [][]string{{"vm-1"}, {"--discovery", at}} {
		r := clitest.Run(t.Context(), "", nil, append([]string{"proxy-status", "--state", "away"}, args...)...)
		require.Equal(t, 2, r.Code)
		require.Contains(t, r.Err, "--state is about the whole mesh")
	}
	r := clitest.Run(t.Context(), "", nil, "proxy-status", "--server", "127.0.0.1:1", "--insecure")
	require.Equal(t, 4, r.Code)
	require.Contains(t, r.Err, ". A discovery tells of its own proxies: --discovery http://127.0.0.1:15014")
}
