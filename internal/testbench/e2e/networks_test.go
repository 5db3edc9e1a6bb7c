package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/kinds"
)

// networksPage is the page that tests of several networks follow.
const networksPage = "../../../docs/networks.md"

// networks is a mesh in several networks that have the same addresses, and reach each other by their
// gateways alone.
type networks struct {
	*secureMesh

	outer    *netns.Switch
	inner    map[string]*netns.Switch
	host     string // what is asked for
	machines map[string]*netns.Namespace
	// ways are what the gateways of a network are reached by, exits what its machines reach others by,
	// and borders what leads to discovery.
	ways, exits, borders map[string]*netns.Cable
	agents               map[string]*machineProgram
	groups               map[string]string // or, of a Pod, its namespace and its service account
	programs             string            // a folder with Envoy under its name
	startsAgain          bool              // what ends before it serves is started again, as a kubelet does
}

// newPlaces has a network of each name. Each has a gateway and an api, and the first has web.
func newPlaces(t *testing.T, names ...string) *networks {
	t.Helper()
	groups := map[string]string{"web": "shop/web"}
	for _, name := range names {
		groups["gateway-"+name], groups["api-"+name] = "istio-system/east-west", "payments/api"
	}
	n := newNetworks(t, "api.payments.mesh", groups)
	for i, name := range names {
		machines := []string{"gateway-" + name, "api-" + name}
		if i == 0 {
			machines = append(machines, "web")
		}
		n.network(name, machines...)
	}
	n.leadOut()
	return n
}

// leadOut has machines of all networks reach what their gateways' second addresses are in. Gateways
// have joined that first, for the page says by which addresses.
func (n *networks) leadOut() {
	for name, inner := range n.inner {
		n.exits[name] = inner.LeadsTo(n.outer)
	}
}

// newNetworks is a mesh with machines of these groups, which are in no network yet.
func newNetworks(t *testing.T, host string, groups map[string]string, flags ...string) *networks {
	t.Helper()
	outer := netns.NewOuterSwitch(t) // first, for it skips the test where there are no networks
	database := pgtest.New(t)
	control, err := stack.NewSecure(bin, t.TempDir(), database, nil)
	require.NoError(t, err)
	control.ServerFlags(append(flags, "--workload-grace", grace.String())...)
	t.Cleanup(func() {
		control.Stop()
		if t.Failed() {
			t.Logf("mcp-server's log:\n%s\ndiscovery's log:\n%s", control.MCPServer.Log(), control.Discovery.Log())
		}
	})
	require.NoError(t, control.Start(t.Context()))
	n := &networks{
		secureMesh: &secureMesh{meshWithoutEnvoy(t, control, database)}, outer: outer, inner: map[string]*netns.Switch{}, host: host, groups: groups,
		machines: map[string]*netns.Namespace{}, ways: map[string]*netns.Cable{}, exits: map[string]*netns.Cable{}, borders: map[string]*netns.Cable{}, agents: map[string]*machineProgram{},
	}
	n.programs = t.TempDir()
	require.NoError(t, os.Symlink(envoytest.Binary(t), filepath.Join(n.programs, "envoy")))
	return n
}

// network makes the machines of a network. The first that it has leads to discovery.
func (n *networks) network(name string, machines ...string) {
	n.t.Helper()
	inner := netns.NewSwitch(n.t)
	border := inner.Machine(n.t)
	border.Forward(net.JoinHostPort(border.IPv4.String(), "15012"), n.XDS)
	n.borders[name] = border.Cable
	for _, m := range machines {
		n.machines[m] = inner.Machine(n.t)
		if strings.HasPrefix(n.groups[m], "payments/") {
			serveBackend(n.t, m, n.machines[m].Listen("tcp", "127.0.0.1:8080"))
		}
		if strings.HasPrefix(m, "gateway-") {
			n.ways[name] = n.outer.Join(n.machines[m])
		}
	}
	n.inner[name] = inner
}

// mine is where discovery is for every machine: both networks have the same addresses.
const mine = "10.77.0.2:15012"

// block is a part of a page that is typed on a machine, or of the administrator: on "mesh".
type block struct{ on, lines string }

func blocksOf(t testing.TB, page string) (out []block) {
	t.Helper()
	for _, b := range regexp.MustCompile("(?ms)^```sh (\\S+)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		out = append(out, block{b[1], strings.ReplaceAll(b[2], "mesh.example:15012", mine)})
	}
	require.Len(t, out, strings.Count(page, "\n```sh "), "a block of the page was not understood")
	return out
}

// follow does what a page says, and returns what its last block printed.
func (n *networks) follow(page string) (last string) {
	n.t.Helper()
	for _, b := range blocksOf(n.t, page) {
		if b.on == "mesh" {
			last = n.administrate(b.lines)
			continue
		}
		lines, run, starts := strings.Cut(b.lines, "mesh-agent run ")
		m := n.machines[b.on]
		require.NotNil(n.t, m, "the page has no machine %s", b.on)
		last = n.typed(m.Command(n.t.Context(), "bash", "-euc", lines), n.variables(b.on), n.token(b.on))
		if starts {
			n.run(b.on, strings.Fields(run)...)
		}
	}
	return last
}

// administrate runs lines of the administrator's.
func (n *networks) administrate(lines string) string {
	n.t.Helper()
	return n.typed(exec.CommandContext(n.t.Context(), "bash", "-euc", lines), slices.Concat(n.shell(), n.Administrator()), "")
}

// typed runs a command as somebody types it.
func (n *networks) typed(cmd *exec.Cmd, env []string, stdin string) string {
	n.t.Helper()
	cmd.Env, cmd.Stdin, cmd.Dir = env, strings.NewReader(stdin), n.programs
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	require.NoError(n.t, err, "%s\n%s%s", strings.Join(cmd.Args, " "), out, &complaint)
	return string(out)
}

// shell has the programs in its path.
func (n *networks) shell() []string {
	return []string{"PATH=" + n.programs + ":" + bin + ":" + os.Getenv("PATH"), "HOME=" + n.programs}
}

// variables are what a machine's agent is told beside the page: machines of a test share a host name
// and folders.
func (n *networks) variables(machine string) []string {
	return append(n.shell(),
		"PGMESH_STATE_DIR="+n.State(machine), "PGMESH_ID="+machine+"."+strings.Split(n.groups[machine], "/")[0],
		"PGMESH_TIE_ENVOY=true", "PGMESH_DRAIN_TIME=0s", "PGMESH_CONCURRENCY=1")
}

// token is one for a machine that has not joined yet.
func (n *networks) token(machine string) string {
	n.t.Helper()
	if _, err := os.Stat(n.State(machine)); err == nil {
		return ""
	}
	token, err := n.GroupToken(n.t.Context(), n.groups[machine])
	require.NoError(n.t, err)
	return token
}

// run starts a machine's agent, and returns when the machine serves.
func (n *networks) run(machine string, flags ...string) {
	n.t.Helper()
	at := n.machines[machine]
	p := &machineProgram{t: n.t, at: at, args: slices.Concat([]string{"env"}, n.variables(machine), []string{"mesh-agent", "run"}, flags)}
	n.t.Cleanup(func() {
		p.run.Stop(longestWait)
		if n.t.Failed() {
			n.t.Logf("%s:\n%s", machine, p.said())
		}
	})
	p.start()
	n.agents[machine] = p
	eventually(n.t, func(ctx context.Context) error {
		if n.startsAgain {
			p.startAgain()
		}
		resp, err := sendURL(ctx, clientOn(at), "http://127.0.0.1:15026/healthz/ready", request{})
		if err == nil && resp.status != http.StatusOK {
			err = errors.New(resp.body)
		}
		return err
	})
}

// startAgain starts a program that has ended.
func (p *machineProgram) startAgain() {
	p.t.Helper()
	select {
	case <-p.run.Done():
		p.t.Logf("started again after: %s", p.said())
		p.start()
	default:
	}
}

// ask sends a request, and returns who answered.
func (n *networks) ask(ctx context.Context, client *http.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, oneAttempt)
	defer cancel()
	a, err := send(ctx, client, "127.0.0.1:8080", request{host: n.host})
	if err != nil {
		return "", err
	}
	if a.status != http.StatusOK {
		return "", fmt.Errorf("answered %d: %s", a.status, a.body)
	}
	return a.seen.Backend, nil
}

// steady is for how many answers in a row traffic has to be somewhere.
const steady = 20

// moves does something, and sends requests from a machine until they are answered by one alone. It
// returns how long nobody was answered, and how many requests failed.
func (n *networks) moves(from, to string, do func()) (silence time.Duration, failed int) {
	n.t.Helper()
	client := clientOn(n.machines[from])
	do()
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*longestWait)
	defer cancel()
	// Without pauses: what is ejected is tried again by a request that comes late enough, and so by each.
	for last, inARow := time.Now(), 0; inARow < steady; {
		by, err := n.ask(ctx, client)
		if err != nil {
			require.NoError(n.t, ctx.Err(), "%s does not answer %d requests in a row", to, steady)
			failed++
			n.t.Logf("a request of %s failed after %v: %v", from, time.Since(last).Round(time.Millisecond), err)
			continue
		}
		silence, last = max(silence, time.Since(last)), time.Now()
		if inARow++; by != to {
			inARow = 0
		}
	}
	return silence, failed
}

// loss is something that is lost, or is back, and who answers a client from then on.
type loss struct {
	what, from, to string
	do             func()
}

// fallBack has one thing after the other lost. Somebody answers within a second each time, and no
// request fails.
func (n *networks) fallBack(losses ...loss) {
	n.t.Helper()
	for _, c := range losses {
		silence, failed := n.moves(c.from, c.to, c.do)
		n.t.Logf("%s: %s answers %s; nobody answered for %v, and %d requests failed", c.what, c.to, c.from, silence.Round(time.Millisecond), failed)
		require.Less(n.t, silence, time.Second, c.what)
		require.Zero(n.t, failed, c.what)
	}
}

// TestThePageOfNetworks follows the page, and cuts one thing after the other. It has the machine to
// itself for as long as it measures: the page has Envoy take a fifth of a second for a failure.
func TestThePageOfNetworks(t *testing.T) { //nolint:paralleltest // it is, after what it measures
	n := newPlaces(t, "east", "west")
	said := n.follow(textOf(t, networksPage))
	require.Regexp(t, `(?s)10\.77\.0\.4:8080 +HEALTHY.* 0 .*10\.99\.0\.3:15443 +HEALTHY.* 1 `, said, "the page has lost its last block")
	n.fallBack(
		loss{"as the page leaves it", "web", "api-east", func() {}},
		loss{"the machine in the east is cut off", "web", "api-west", n.machines["api-east"].Cable.Cut},
		loss{"and is back", "web", "api-east", n.machines["api-east"].Cable.Mend},
		loss{"the way to the west is cut", "web", "api-east", n.ways["west"].Cut},
		loss{"and is back", "web", "api-east", n.ways["west"].Mend},
	)
	t.Parallel()
	n.losesAGateway()
	n.losesANetwork()
}

// losesAGateway ends the only gateway of the west in good order, and starts it again. What is behind
// it is not tried at addresses that are somebody else's in the east.
func (n *networks) losesAGateway() {
	n.t.Helper()
	gateway := n.agents["gateway-west"]
	gateway.end()
	n.endpoints("10.77.0.4:8080")
	gateway.start()
	n.endpoints("10.77.0.4:8080", "10.99.0.3:15443")
}

// losesANetwork cuts the west off from everything. What is there is no endpoint any more after the
// grace period, and is one again when the network is back.
func (n *networks) losesANetwork() {
	n.t.Helper()
	cables := []*netns.Cable{n.ways["west"], n.exits["west"], n.borders["west"]}
	for _, c := range cables {
		c.Cut()
	}
	began := time.Now()
	n.endpoints("10.77.0.4:8080")
	n.t.Logf("what is in a lost network was no endpoint any more after %v", time.Since(began).Round(time.Millisecond))
	for _, c := range cables {
		c.Mend()
	}
	began = time.Now()
	n.endpoints("10.77.0.4:8080", "10.99.0.3:15443")
	n.t.Logf("and was one again %v after the network was back", time.Since(began).Round(time.Millisecond))
	n.moves("web", "api-west", n.machines["api-east"].Cable.Cut)
}

// endpoints waits until web has these endpoints of the api and no others.
func (n *networks) endpoints(want ...string) {
	n.t.Helper()
	poll.Within(n.t, time.Minute, func(ctx context.Context) error {
		out, err := n.ClientOutput(ctx, "proxy-config", "endpoints", "web.shop", "--name", "api.payments.mesh")
		if err != nil {
			return err
		}
		var found []string
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); strings.Contains(f[0], ":") {
				found = append(found, f[0])
			}
		}
		if !slices.Equal(found, want) {
			return fmt.Errorf("the endpoints are %v, not %v", found, want)
		}
		return nil
	})
}

// textOf is the text of a page.
func textOf(t testing.TB, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// shownBy are the resources that a page only shows.
func shownBy(t testing.TB, page string) (out []string) {
	t.Helper()
	for _, found := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(textOf(t, page), -1) {
		out = append(out, found[1])
	}
	require.NotEmpty(t, out)
	return out
}

// The resources that the page only shows are as one may write them.
func TestThePageOfNetworksShowsWhatIsValid(t *testing.T) {
	t.Parallel()
	for _, shown := range shownBy(t, networksPage) {
		_, err := kinds.Parse(networksPage, []byte(shown))
		require.NoError(t, err)
	}
}
