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
		`unknown command "gett" (did you mean "get"?) (see mcp-client --help)`:                                                                                       {"gett", "vs"},
		`unknown command "nonsense" (see mcp-client --help)`:                                                                                                         {"nonsense"},
		`"a.yaml" is not expected: write mcp-client version (see mcp-client version --help)`:                                                                         {"version", "a.yaml"},
		`accepts 1 arg(s), received 0: write mcp-client revert REVISION (see mcp-client revert --help)`:                                                              {"revert"},
		`accepts 1 arg(s), received 0: write mcp-client trust add TRUST-DOMAIN --roots FILE`:                                                                         {"trust", "add"},
		`requires at least 1 arg(s), only received 0: write mcp-client import PATH... (see mcp-client import --help)`:                                                {"import"},
		`unknown flag: --outpt (did you mean --output?) (see mcp-client get --help)`:                                                                                 {"get", "vs", "--outpt", "yaml"},
		`unknown command "nonsens" (see mcp-client --help)`:                                                                                                          {"nonsens", "--form"},
		`unknown flag: --form (see mcp-client get --help)`:                                                                                                           {"get", "vs", "--form", "yaml"},
		`unknown command "analyse" (did you mean "analyze"?) (see mcp-client --help)`:                                                                                {"--insecure", "analyse"},
		`unknown command "analyse" (did you mean "analyze"?)`:                                                                                                        {"--no-such", "analyse"},
		`unknown command "gett" (did you mean "get"?)`:                                                                                                               {"--kubeconfig", "x", "gett", "vs"},
		`unknown command "undo" (here it is mcp-client revert)`:                                                                                                      {"--kubeconfig=x", "undo"},
		`unknown flag: --kubeconfig (servers and credentials are in contexts: mcp-client context set makes one, and --context names it) (see mcp-client get --help)`: {"--kubeconfig", "nonsense", "get"},
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
		`unknown command "undo" (A resource is made what it was by mcp-client restore KIND/NAME --to REVISION, and`:                 {"rollout", "undo"},
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

// Who goes back in kubectl names a resource, and is told how to do that here with it.
func TestAResourceThatIsToBeWhatItWas(t *testing.T) {
	t.Parallel()
	for args, says := range map[string][]string{
		"rollout undo vs/web":                 {"mcp-client history vs web ", "mcp-client restore vs/web --to REVISION", "mcp-client revert REVISION"},
		"rollout undo vs shop/web":            {"mcp-client history vs shop/web ", "mcp-client restore vs/shop/web --to REVISION"},
		"rollout undo vs/web --to-revision=2": {"mcp-client history vs web ", "mcp-client restore vs/web --to REVISION"},
		"rollout undo deployment/web":         {"mcp-client history KIND NAME ", "mcp-client restore KIND/NAME --to REVISION"},
		"revert vs/web":                       {"vs/web is a resource", "mcp-client history vs web ", "mcp-client restore vs/web --to REVISION"},
		"revert vs web":                       {"mcp-client history vs web ", "mcp-client restore vs/web --to REVISION"},
		"revert deployment/web":               {`"deployment/web" is not a revision`},
		"revert 2 3":                          {"accepts 1 arg(s), received 2: write mcp-client revert REVISION"},
		"rollout history vs/web":              {"mcp-client history vs web "},
		"rollout history web":                 {`"web" is not expected: write mcp-client rollout history`},
		"rollout status vs/web":               {"mcp-client history vs web ", "mcp-client rollout status REVISION"},
	} {
		r := clitest.Run(t.Context(), "", nil, strings.Fields(args)...)
		require.Equal(t, 2, r.Code, args)
		for _, part := range says {
			require.Contains(t, r.Err, part, args)
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

// Flags of kubectl and istioctl that are not here are answered with what takes their place.
func TestFlagsOfOtherProgramsAreAnsweredWithOurs(t *testing.T) {
	t.Parallel()
	for command, flags := range map[string]map[string]string{
		"apply":   {"--server-side": "mcp-client patch", "--prune": "mcp-client import --prune", "--force-conflicts": "metadata.resourceVersion", "--validate=false": "mcp-client validate", "--field-manager=x": "mcp-client blame", "--record": "-m says why"},
		"replace": {"--force": "metadata.resourceVersion"},
		"delete":  {"--grace-period=0": "gone at once", "--force": "gone at once"},
		"diff":    {"--server-side": "mcp-client patch"},
		"analyze": {"--suppress=x": "-o json"},
	} {
		for flag, says := range flags {
			r := clitest.Run(t.Context(), "", nil, command, "-f", "a.yaml", flag)
			require.Equal(t, 2, r.Code, "%s %s", command, flag)
			name, _, _ := strings.Cut(flag, "=")
			require.Contains(t, r.Err, "error: unknown flag: "+name+" (", command)
			require.Contains(t, r.Err, says, "%s %s", command, flag)
		}
	}
}

func TestFlagsOfKubectlWithoutAFile(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"label vs/web --list":          "unknown flag: --list (mcp-client get KIND NAME --show-labels",
		"annotate vs/web --list":       "unknown flag: --list (mcp-client get KIND NAME -o yaml",
		"get -f a.yaml":                "unknown shorthand flag: 'f' in -f (what a file has is compared with what is there by mcp-client diff -f FILE",
		"get --filename a.yaml":        "unknown flag: --filename (what a file has",
		"describe -f a.yaml":           "(what a file has",
		"get vs --watch-only":          "unknown flag: --watch-only (changes alone, each with what it did, are those of mcp-client watch -o json",
		"get vs --output-watch-events": "mcp-client watch -o json",
		"get vs --as ann":              "unknown flag: --as (nobody acts in the name of another: --context",
		"delete vs web --as=ann":       "unknown flag: --as (nobody acts",
		"apply -f x --as-group=a":      "unknown flag: --as-group (nobody acts",
		"delete vs x --kubeconfig y":   "unknown flag: --kubeconfig (servers and credentials are in contexts: mcp-client context set",
	} {
		r := clitest.Run(t.Context(), "", nil, strings.Fields(args)...)
		require.Equal(t, 2, r.Code, args)
		require.Contains(t, r.Err, says, args)
	}
}

func TestShortNamesOfIstioctl(t *testing.T) {
	t.Parallel()
	run := func(args ...string) clitest.Result { return clitest.Run(t.Context(), "", nil, args...) }
	for short, long := range map[string]string{"ep": "endpoints", "c": "clusters", "l": "listeners", "r": "routes", "s": "secrets", "a": "all"} {
		require.Equal(t, run("proxy-config", long, "--help"), run("pc", short, "--help"), short)
		require.NotEmpty(t, run("pc", short, "--help").Out)
		require.Contains(t, run("pc", short).Err, "accepts 1 arg(s)", short)
	}
	require.Contains(t, run("pc", "b", "x").Err, "sudo mesh-agent envoy config bootstrap")
	require.Equal(t, strings.Replace(run("dashboard").Err, `"dashboard"`, `"dash"`, 1), run("dash").Err)
}

// A file with a warning alone is well, unless warnings count.
func TestWarningsMayFail(t *testing.T) {
	t.Parallel()
	const rule = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a, namespace: default}\nspec: {host: nobody.example.com}\n"
	run := func(args ...string) clitest.Result {
		return clitest.Run(t.Context(), rule, nil, append([]string{"analyze", "-"}, args...)...)
	}
	r := run()
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "warning")
	for severity, code := range map[string]int{"Warning": 1, "info": 1, "error": 0, "fatal": 2} {
		require.Equal(t, code, run("--failure-threshold", severity).Code, severity)
	}
	require.Contains(t, run("--failure-threshold", "warning").Err, "error: there are problems of severity warning")
}
