package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// places are the networks of the test and the regions that they are in. The first has web.
var places = []struct{ network, locality string }{{"east", "eu/a"}, {"west", "us/a"}, {"south", "asia/a"}}

// newRegions is a mesh in a network of each region, as the page has it but for the rule of the api.
func newRegions(t *testing.T) *networks {
	t.Helper()
	var names []string
	for _, p := range places {
		names = append(names, p.network)
	}
	n := newPlaces(t, names...)
	for _, b := range blocksOf(t, textOf(t, networksPage)) {
		if b.on == "mesh" && strings.Contains(b.lines, "apply") {
			n.administrate(strings.ReplaceAll(b.lines, "attempts: 3", "attempts: 6"))
		}
	}
	n.declare(theWayTo(t, "south"))
	for _, p := range places {
		flags := []string{"--network", p.network, "--locality", p.locality}
		n.joins("gateway-"+p.network, slices.Concat(flags, []string{"--role", "gateway", "--node-ip", n.ways[p.network].IPv4.String()})...)
		n.joins("api-"+p.network, flags...)
	}
	n.joins("web", "--network", places[0].network, "--locality", places[0].locality)
	return n
}

// theWayTo is what leads to one more network: as to the west.
func theWayTo(t testing.TB, network string) string {
	t.Helper()
	for _, b := range blocksOf(t, textOf(t, networksPage)) {
		for resource := range strings.SplitSeq(b.lines, "---\n") {
			if strings.Contains(resource, "name: to-west") {
				resource, _, _ = strings.Cut(resource, "END")
				return strings.NewReplacer("to-west", "to-"+network, "network: west", "network: "+network).Replace(resource)
			}
		}
	}
	t.Fatalf("%s has no way to the west", networksPage)
	return ""
}

// declare has the administrator apply resources.
func (n *networks) declare(yaml string) {
	n.t.Helper()
	n.administrate("mcp-client apply -f - <<'END'\n" + yaml + "\nEND\n")
}

// joins has a machine join the mesh, and runs its agent.
func (n *networks) joins(machine string, flags ...string) {
	n.t.Helper()
	n.typed(n.machines[machine].Command(n.t.Context(), "mesh-agent", "join", "--server", mine), n.variables(machine), n.token(machine))
	n.run(machine, flags...)
}

// ruleWith is the rule of the api that the page shows with some words.
func ruleWith(t testing.TB, words string) string {
	t.Helper()
	for _, shown := range shownBy(t, networksPage) {
		if strings.Contains(shown, words) {
			return shown
		}
	}
	t.Fatalf("%s shows nothing with %s", networksPage, words)
	return ""
}

// lost is how long nobody may answer when a network is lost, and bothLost when its stand-in is lost as
// well: a request may then wait for six failures, and for the pauses between them.
const lost, bothLost = time.Second, 3 * time.Second

// Requests go to the network that the rule has for next, and to the third only when both are lost, and
// return. It has the machine to itself while it measures: Envoy takes a fifth of a second for a
// failure.
func TestNetworksInThreeRegions(t *testing.T) { //nolint:paralleltest // it is, after what it measures
	n := newRegions(t)
	near, standIn := n.machines["api-east"].Cable, n.ways["west"]
	for _, rule := range []string{"failover:", "failoverPriority: [topology.istio.io/network, "} {
		n.declare(ruleWith(t, rule))
		for _, c := range []struct {
			what, to string
			do       func()
			within   time.Duration
		}{
			{"nothing is lost", "api-east", func() {}, bothLost},
			{"the near network's api is cut off", "api-west", near.Cut, lost},
			{"and the way to its stand-in", "api-south", standIn.Cut, bothLost},
			{"that way is back", "api-west", standIn.Mend, bothLost},
			{"all is back", "api-east", near.Mend, lost},
		} {
			silence, failed := n.moves("web", c.to, c.do)
			t.Logf("%s %s: %s answers; nobody answered for %v, and %d requests failed", rule, c.what, c.to, silence.Round(time.Millisecond), failed)
			require.Less(t, silence, c.within, c.what)
			require.Zero(t, failed, c.what)
		}
	}
	t.Parallel()
	n.shares()
}

// shares has two of three regions share the requests, and cuts one of them off.
func (n *networks) shares() {
	n.t.Helper()
	n.declare(ruleWith(n.t, "distribute:"))
	eventually(n.t, func(ctx context.Context) error {
		by, err := n.answered(ctx, 200)
		if err == nil && (by["api-south"] > 0 || by["api-west"] < 20 || by["api-west"] > 60) {
			err = fmt.Errorf("of 200 requests %v were answered", by)
		}
		return err
	})
	n.moves("web", "api-west", n.machines["api-east"].Cable.Cut)
}

// answered counts who answers requests of web.
func (n *networks) answered(ctx context.Context, requests int) (map[string]int, error) {
	by, client := map[string]int{}, clientOn(n.machines["web"])
	for range requests {
		who, err := n.ask(ctx, client)
		if err != nil {
			return nil, err
		}
		by[who]++
	}
	return by, nil
}
