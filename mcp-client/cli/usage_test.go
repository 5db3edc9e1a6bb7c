package cli_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
)

func TestWrongArgumentsAreAnsweredWithHowACommandIsWritten(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		`unknown command "gett" (did you mean "get"?) (see mcp-client --help)`:                                        {"gett", "vs"},
		`unknown command "nonsense" (see mcp-client --help)`:                                                          {"nonsense"},
		`"a.yaml" is not expected: write mcp-client version (see mcp-client version --help)`:                          {"version", "a.yaml"},
		`accepts 1 arg(s), received 0: write mcp-client revert REVISION (see mcp-client revert --help)`:               {"revert"},
		`accepts 1 arg(s), received 0: write mcp-client trust add TRUST-DOMAIN --roots FILE`:                          {"trust", "add"},
		`requires at least 1 arg(s), only received 0: write mcp-client import PATH... (see mcp-client import --help)`: {"import"},
		`unknown flag: --outpt (did you mean --output?) (see mcp-client get --help)`:                                  {"get", "vs", "--outpt", "yaml"},
		`unknown command "nonsens" (see mcp-client --help)`:                                                           {"nonsens", "--form"},
		`unknown flag: --form (see mcp-client get --help)`:                                                            {"get", "vs", "--form", "yaml"},
		`unknown command "analyse" (did you mean "analyze"?) (see mcp-client --help)`:                                 {"--insecure", "analyse"},
		`unknown command "analyse" (did you mean "analyze"?)`:                                                         {"--no-such", "analyse"},
		`unknown command "gett" (did you mean "get"?)`:                                                                {"--kubeconfig", "x", "gett", "vs"},
		`unknown command "undo" (here it is mcp-client revert)`:                                                       {"--kubeconfig=x", "undo"},
		`unknown flag: --kubeconfig (see mcp-client get --help)`:                                                      {"--kubeconfig", "nonsense", "get"},
	} {
		r := clitest.Run(t.Context(), "", nil, args...)
		require.Equal(t, 2, r.Code, args)
		require.Contains(t, r.Err, "error: "+says)
	}
}

func TestWordsOfOtherProgramsAreAnsweredWithOurs(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		`unknown command "api-resources" (here it is mcp-client kinds) (see mcp-client --help)`:                                     {"api-resources"},
		`unknown command "undo" (here it is mcp-client revert) (see mcp-client rollout --help)`:                                     {"rollout", "undo"},
		`unknown command "precheck" (here it is mcp-client problems) (see mcp-client --help)`:                                       {"precheck"},
		`unknown command "inspect" (here it is mcp-client describe) (see mcp-client --help)`:                                        {"inspect", "dataplanes"},
		`unknown command "logs" (Logs are of the programs on each machine: sudo mesh-agent logs, or journalctl -u mesh-agent) (see`: {"logs", "x"},
	} {
		r := clitest.Run(t.Context(), "", nil, args...)
		require.Equal(t, 2, r.Code, args)
		require.Contains(t, r.Err, "error: "+says)
	}
	for word, here := range arguments.Meant() {
		help := clitest.Run(t.Context(), "", nil, append(strings.Fields(here), "--help")...)
		require.Zero(t, help.Code, word)
		require.Contains(t, help.Out, "mcp-client "+strings.Fields(here)[0], "%s is said to be %s", word, here)
		r := clitest.Run(t.Context(), "", nil, strings.Fields(word)...)
		require.Contains(t, r.Err, "here it is mcp-client "+here, "%s is a command by now", word)
		for _, flags := range [][]string{{"-f", "x"}, {"x", "-it", "y"}, {"--no-such-flag=x"}, {"x", "--timeout", "soon"}} {
			flagged := clitest.Run(t.Context(), "", nil, append(strings.Fields(word), flags...)...)
			require.Equal(t, r.Code, flagged.Code, "%s %s", word, flags)
			require.Equal(t, r.Err, flagged.Err, "%s %s", word, flags)
		}
	}
}

// Who names a noun alone wants to see what there is.
func TestANounAloneIsItsList(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Register(m.GiveMembers())
	configured := clitest.NewConfigured(t)
	configured.OK("context", "set", "here", "--insecure", "--server", m.Address)
	for noun, list := range map[string]string{
		"machines": "list", "machine": "list", "identity": "list", "token": "list", "issuer": "list", "trust": "list", "authority": "show",
		"hosts": "list", "quota": "list", "secret": "list", "context": "list",
	} {
		for _, flags := range [][]string{nil, {"-o", "json"}, {"-o", "wide"}} {
			want := configured.Run(append([]string{noun, list}, flags...)...)
			require.Zero(t, want.Code, noun)
			require.NotContains(t, want.Out, "Usage:")
			require.Equal(t, clitest.WithoutTimes(want.Out), clitest.WithoutTimes(configured.Run(append([]string{noun}, flags...)...).Out), noun)
		}
		require.Contains(t, configured.Run(noun, "--help").Out, "Without another word it is "+list+".")
		require.Equal(t, 2, configured.Run(noun, "lits").Code, "a mistyped word is no list")
	}
	require.Equal(t, configured.OK("machines", "list", "-n", "shop", "--group", "cart", "-o", "name"), configured.OK("machines", "-n", "shop", "--group", "cart", "-o", "name"))
}

func TestAPortForHTTPIsNamed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nil)
	defer s.Close()
	r := clitest.Run(t.Context(), "", nil, "get", "vs", "--insecure", "--server", s.Listener.Addr().String())
	require.Equal(t, 4, r.Code)
	require.Contains(t, r.Err, "What listens there speaks HTTP: name the port for MCP")
}
