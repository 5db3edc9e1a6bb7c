package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// order is a schedule: which parts die when, and when each comes back.
type order struct {
	name  string
	steps []step
}

// step is the death or the return of some parts, at a time after the start.
type step struct {
	at      time.Duration
	returns bool
	parts   []string
}

func dies(at time.Duration, parts ...string) step { return step{at, false, parts} }

func comes(at time.Duration, parts ...string) step { return step{at, true, parts} }

// await waits for the time of a step.
func (s step) await(begun time.Time) {
	timer := time.NewTimer(time.Until(begun.Add(s.at)))
	defer timer.Stop()
	<-timer.C
}

// goes runs an order while the client sends requests, none of which may fail.
func (m *mortal) goes(o order) {
	m.t.Helper()
	entries, before := m.standing(), m.newest()
	asking := make([]*traffic, len(mortals))
	for i, name := range mortals {
		asking[i] = m.startTraffic(name+".mesh", 50)
	}
	begun := time.Now()
	for _, s := range o.steps {
		s.await(begun)
		for _, name := range s.parts {
			if s.returns {
				require.NoError(m.t, m.parts[name].start(), name)
			} else {
				m.parts[name].kill()
			}
			m.dead[name] = !s.returns
		}
	}
	back := time.Now()
	m.settled()
	m.t.Logf("%s: all is well %s after the last return", o.name, time.Since(back).Round(time.Millisecond))
	m.lives()
	for i, name := range mortals {
		if _, failure := asking[i].end(); failure != "" {
			m.t.Errorf("%s: %s: %s", o.name, name, failure)
		}
	}
	require.Empty(m.t, m.became(before), "changes of WorkloadEntries: %s", o.name)
	require.Equal(m.t, entries, m.standing(), o.name)
}

// tellingOrders are those that every test run goes through.
var tellingOrders = []order{
	{"discovery is back before its configuration is", []step{dies(0, discovery, folder), comes(time.Second/2, discovery), comes(5*time.Second/2, folder)}},
	{"the machine of the control plane crashes, and discovery is back first", []step{dies(0, server, discovery), comes(time.Second, discovery), comes(4*time.Second, server)}},
	{"the machine of the control plane crashes, and mcp-server is back first", []step{dies(0, discovery, server), comes(time.Second/2, server), comes(time.Second, discovery)}},
	{"Postgres and discovery, and discovery is back first", []step{dies(0, postgres, discovery), comes(time.Second/2, discovery), comes(2*time.Second, postgres)}},
	{"all but Envoy, and those who ask are back first", []step{
		dies(0, postgres, server, discovery, agent), comes(time.Second/2, agent), comes(time.Second, discovery), comes(3*time.Second/2, server), comes(2*time.Second, postgres),
	}},
}

// Parts of a mesh die and come back in different orders, while requests flow through the Envoys of
// a registered machine and its client. No request fails, and while something is not known, it does
// no harm.
func TestNoRequestFailsWhicheverPartDies(t *testing.T) {
	t.Parallel()
	m := newMortal(t, false, false)
	for _, o := range tellingOrders {
		m.goes(o)
	}
	m.probed()
}

// Times between two deaths, and between two returns.
const (
	shortly = 300 * time.Millisecond
	later   = 3 * time.Second
)

// pairs are all orders in which two of some parts die and come back.
func pairs(parts ...string) (all []order) {
	for i, a := range parts {
		for _, b := range parts[i+1:] {
			all = append(all, pair(a, b)...)
		}
	}
	return all
}

func pair(a, b string) (all []order) {
	both := fmt.Sprintf("%s and %s", a, b)
	for _, died := range []order{
		{"die at once", []step{dies(0, a, b)}}, {"die in this order", []step{dies(0, a), dies(shortly, b)}}, {"die in the other order", []step{dies(0, b), dies(shortly, a)}},
	} {
		for _, came := range []order{
			{"come at once", []step{comes(time.Second, a, b)}},
			{"come in this order", []step{comes(time.Second, a), comes(time.Second+later, b)}},
			{"come in the other order", []step{comes(time.Second, b), comes(time.Second+later, a)}},
		} {
			all = append(all, order{both + " " + died.name + ", and " + came.name, slices.Concat(died.steps, came.steps)})
		}
	}
	for _, turn := range [][2]string{{a, b}, {b, a}} {
		all = append(all, order{turn[1] + " dies when " + turn[0] + " comes", []step{
			dies(0, turn[0]), comes(time.Second, turn[0]), dies(time.Second, turn[1]), comes(2*time.Second, turn[1]),
		}})
	}
	return all
}

// permutations are all orders in which parts that die together come back one after the other.
func permutations(parts ...string) (all []order) {
	var place func(chosen, left []string)
	place = func(chosen, left []string) {
		if len(left) == 0 {
			o := order{fmt.Sprintf("all die and return as %v", chosen), []step{dies(0, parts...)}}
			for i, name := range chosen {
				o.steps = append(o.steps, comes(time.Second*time.Duration(i+1), name))
			}
			all = append(all, o)
		}
		for i, name := range left {
			place(append(slices.Clone(chosen), name), slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	place(nil, parts)
	return all
}

// TestEveryOrderOfDeaths goes through all of them, in half an hour: make deaths.
func TestEveryOrderOfDeaths(t *testing.T) {
	t.Parallel()
	if os.Getenv("DEATHS") == "" {
		t.Skip("make deaths goes through all orders")
	}
	single := slices.Concat(pair(discovery, folder), pairs(postgres, server, discovery, agent), permutations(postgres, server, discovery, agent))
	replicated := slices.Concat(pairs(postgres, server, secondServer, discovery, secondDiscovery, agent), permutations(server, secondServer, discovery, secondDiscovery))
	for name, c := range map[string]struct {
		secure, replicas bool
		orders           []order
	}{
		"one of each":                  {false, false, single},
		"one of each, with identities": {true, false, single},
		"replicas, with identities":    {true, true, replicated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMortal(t, c.secure, c.replicas)
			for _, o := range c.orders {
				m.goes(o)
			}
			m.rests()
			m.probed()
		})
	}
}
