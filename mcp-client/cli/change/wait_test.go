package change_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// apply applies a VirtualService that routes to another host.
func apply(t *testing.T, m *clitest.Mesh, to string, args ...string) clitest.Result {
	t.Helper()
	r := m.Pipe(clitest.VirtualService("shop", "cart", to), append([]string{"apply", "-f", "-"}, args...)...)
	r.Err = withoutWarnings(r.Err)
	return r
}

func withoutWarnings(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "warning:") && !strings.HasPrefix(line, "  ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// ahead has two proxies run what is to come.
func ahead(t *testing.T) (m *clitest.Mesh, tell func(int64, []rollout.Proxy, ...uint64)) {
	t.Helper()
	m = clitest.Start(t)
	tell = m.Reporting(m.Store())
	tell(100, []rollout.Proxy{clitest.ProxyOf(1, "shop", "cart", "sidecar"), clitest.ProxyOf(2, "bank", "pay", "sidecar")})
	return m, tell
}

// Standard output is what it is without --wait.
func TestEachChangeWaitsForProxies(t *testing.T) {
	t.Parallel()
	m, _ := ahead(t)
	dir := clitest.Folder(t, map[string]string{"a.yaml": clitest.VirtualService("shop", "cart", "v2")})
	r := apply(t, m, "v1", "--wait")
	require.Equal(t, clitest.Result{Out: "virtualservice shop/cart created\nrevision 1\n", Err: "2 of 2 proxies run revision 1\n"}, r)
	require.Equal(t, clitest.Result{Out: "virtualservice shop/cart unchanged\nnothing to change\n", Err: "2 of 2 proxies run revision 1\n"}, apply(t, m, "v1", "--wait=all"))
	require.Equal(t, clitest.Result{Out: "virtualservice.networking.istio.io/shop/cart\n", Err: "2 of 2 proxies run revision 2\n"}, apply(t, m, "v3", "--wait=90%", "-o", "name"))
	r = apply(t, m, "v4", "--wait=2", "--wait-timeout", "1m", "-o", "json")
	require.Regexp(t, `^\{\s+"revision": 3,[^$]*\}\n$`, r.Out)
	require.Equal(t, "2 of 2 proxies run revision 3\n", r.Err)

	for _, args := range []string{"import " + dir, "restore vs/cart -n shop --to 1", "revert 5", "delete vs/cart -n shop"} {
		r := m.Run(append(strings.Fields(args), "--wait")...)
		require.Zero(t, r.Code, "%s: %s", args, r.Err)
		said := strings.Split(strings.TrimSpace(r.Out), "\n")
		require.Equal(t, "2 of 2 proxies run "+said[len(said)-1]+"\n", withoutWarnings(r.Err), args)
	}
	require.Equal(t, "2 of 2 proxies run revision 7\n", m.Run("delete", "vs/cart", "-n", "shop", "--ignore-not-found", "--wait").Err)
}

func TestAWaitNamesWhoRefuses(t *testing.T) {
	t.Parallel()
	m, tell := ahead(t)
	tell(0, []rollout.Proxy{{Stream: 2, State: rollout.Refused, Sent: 3, Refused: 2}})
	tell(100, nil)
	r := apply(t, m, "v1", "--wait")
	require.Equal(t, clitest.Result{
		Code: 7, Out: "virtualservice shop/cart created\nrevision 1\n",
		Err: "error: revision 1 is committed and stays: 1 of 2 proxies run revision 1, and 1 refuses some of it: bank/pay.bank runs nothing yet and refuses 2 resources. mcp-client proxy-status PROXY tells more\n",
	}, r)
	require.Equal(t, "1 of 2 proxies run revision 2\n", apply(t, m, "v2", "--wait=50%").Err)
	require.Equal(t, "1 of 2 proxies run revision 2\n", apply(t, m, "v2", "--wait=1").Err)
}

func TestAWaitNamesWhoIsLate(t *testing.T) {
	t.Parallel()
	m, tell := ahead(t)
	tell(0, []rollout.Proxy{{Stream: 1, State: rollout.Sending, Sent: 1}, {Stream: 2, State: rollout.Silent, Sent: 1}})
	r := apply(t, m, "v1", "--wait", "--wait-timeout", "0s")
	require.Equal(t, 8, r.Code)
	require.Equal(t, "error: revision 1 is committed and stays: 0 of 2 proxies run revision 1 after 0s: "+
		"bank/pay.bank runs nothing yet and does not answer; shop/cart.shop runs nothing yet and is being sent 1. mcp-client proxy-status PROXY tells more\n", r.Err)
	r = apply(t, m, "v1", "--wait", "--wait-timeout", "0s")
	require.Equal(t, 8, r.Code)
	require.Contains(t, r.Err, "error: nothing was changed: 0 of 2 proxies run revision 1 after 0s")

	for asked, says := range map[string]string{"1": "1 was", "3": "3 were", "90%": "90% were"} {
		require.Contains(t, apply(t, m, "v1", "--wait="+asked, "--wait-timeout", "0s").Err, "0 of 2 proxies run revision 1 after 0s, where "+says+" asked for: bank/")
	}

	tell(0, nil, 1, 2)
	r = apply(t, m, "v1", "--wait", "--wait-timeout", "0s")
	require.Equal(t, 8, r.Code)
	require.Equal(t, "error: nothing was changed: no proxy is connected that could run revision 1 after 0s\n", r.Err)
}

// What was edited is applied, whatever comes of the wait.
func TestAnEditThatWaitsLeavesNoFile(t *testing.T) {
	t.Parallel()
	m, tell := ahead(t)
	require.Zero(t, apply(t, m, "v1").Code)
	tell(0, nil)
	editor := filepath.Join(t.TempDir(), "editor")
	require.NoError(t, os.WriteFile(editor, []byte(`sed -i 's/host: v1/host: v2/' "$1"; echo "$1" > "$0.edited"`), 0o600))
	r := clitest.Run(t.Context(), "", map[string]string{"EDITOR": "sh " + editor}, "edit", "vs/cart", "-n", "shop", "--wait", "--wait-timeout", "0s", "--server", m.Address, "--insecure")
	require.Equal(t, 8, r.Code, r.Err)
	require.Contains(t, r.Err, "revision 2 is committed and stays")
	require.NotContains(t, r.Err, "What was edited")
	edited, err := os.ReadFile(editor + ".edited")
	require.NoError(t, err)
	require.NoFileExists(t, strings.TrimSpace(string(edited)))
}

func TestWaitIsRefusedWhereItIsInVain(t *testing.T) {
	t.Parallel()
	for args, answer := range map[string]string{
		"--wait --dry-run":              "--wait waits for a change, and --dry-run makes none",
		"--wait-timeout 1m":             "--wait-timeout says how long to --wait, which is missing",
		"--wait --wait-timeout 2h":      "--wait-timeout 2h0m0s: write a time of an hour at most",
		"--wait --wait-timeout -1s":     "write a time of an hour at most",
		"--wait=some":                   "write all, a share such as 90%, or a number of proxies such as 3",
		"--wait=0%":                     "write all, a share",
		"--wait=101%":                   "write all, a share",
		"--wait=NaN%":                   "write all, a share",
		"--wait=0":                      "write all, a share",
		"--wait=-1":                     "write all, a share",
		"--wait=1.5":                    "write all, a share",
		"--wait=99999999999999999999":   "write all, a share",
		"--wait --dry-run --color=auto": "makes none",
	} {
		for _, command := range []string{"apply -f -", "import -", "delete vs/a", "edit vs/a", "restore --to 1 --yes", "revert 1"} {
			r := clitest.Run(t.Context(), "", nil, append(strings.Fields(command), strings.Fields(args)...)...)
			require.Equal(t, 2, r.Code, "%s %s: %s", command, args, r.Err)
			require.Contains(t, r.Err, answer)
		}
	}
}

// other is a server that changes a mesh, and cannot tell of proxies.
type other struct {
	adminv1.UnimplementedAdminServiceServer
	adminv1.UnimplementedProxyServiceServer

	fails error
}

func (other) Apply(context.Context, *adminv1.ApplyRequest) (*adminv1.ApplyResponse, error) {
	return &adminv1.ApplyResponse{Revision: 7}, nil
}

func (o other) WaitUntilRun(*adminv1.WaitUntilRunRequest, grpc.ServerStreamingServer[adminv1.WaitUntilRunResponse]) error {
	return o.fails
}

func TestWhereNobodyTellsOfProxiesTheChangeStays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		knows bool
		fails error
		code  int
		err   string
	}{
		{false, nil, 1, "the server is of a release that cannot tell which proxies run it (the server at "},
		{true, nil, 1, "whether proxies run it is not known: the server ended the wait without saying"},
		{true, status.Error(codes.Unavailable, "it shuts down"), 4, "whether proxies run it is not known: cannot reach the server"},
		{true, status.Error(codes.PermissionDenied, "you may not see the proxies"), 5, "you may not see the proxies"},
		{true, status.Error(codes.ResourceExhausted, "too many wait"), 1, "too many wait"},
	} {
		o := other{fails: test.fails}
		address := clitest.ServeGRPC(t, func(g *grpc.Server) {
			adminv1.RegisterAdminServiceServer(g, o)
			if test.knows {
				adminv1.RegisterProxyServiceServer(g, o)
			}
		})
		r := clitest.Run(t.Context(), clitest.VirtualService("shop", "cart", "v1"), nil, "apply", "-f", "-", "--wait", "--server", address, "--insecure")
		require.Equal(t, test.code, r.Code, r.Err)
		require.Contains(t, r.Err, "error: revision 7 is committed and stays: ")
		require.Contains(t, r.Err, test.err)
	}
}
