package zookeeper_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/zookeepertest"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// ways lead to each server of an ensemble.
type ways []*gate.Gate

func openWays(t *testing.T, e *zookeepertest.Ensemble) (out ways) {
	t.Helper()
	for _, s := range e.Servers {
		out = append(out, gate.Open(t, s.Address))
	}
	return out
}

// servers is what stands in a URL.
func (w ways) servers() string {
	all := make([]string, len(w))
	for i, way := range w {
		all[i] = way.Address()
	}
	return strings.Join(all, ",")
}

// shut leaves no way but some.
func (w ways) shut(but ...int) {
	for i, way := range w {
		if way.Unshut(); !slices.Contains(but, i) {
			way.Shut()
		}
	}
}

func (w ways) unshut() {
	for _, way := range w {
		way.Unshut()
	}
}

// Servers of an ensemble restart one after the other, the leader among them. Each subject has a chroot
// of its own in it.
func TestContractOfAnEnsemble(t *testing.T) {
	e := zookeepertest.StartEnsemble(t, nil, nil)
	var turn sync.Mutex // one server is away at a time
	chroot := 0
	registrytest.Contract(t, func(t *testing.T) registrytest.Subject {
		t.Helper()
		turn.Lock()
		chroot++
		at := fmt.Sprintf("/tenant-%d", chroot)
		turn.Unlock()
		z, w := e.Client(t), openWays(t, e)
		s := registrytest.Subject{Host: func(service string) string { return service + ".zookeeper" }}
		s = instances(z, at+"/services", s, curator)
		rest := at + "?timeout=2s"
		s.Open = func() registry.Registry { return open(t, w.servers(), rest) }
		s.URL = "zookeeper://" + w.servers() + rest
		s.Cut, s.Mend = func() { w.shut() }, w.unshut
		s.Restart = func() {
			turn.Lock()
			defer turn.Unlock()
			e.Restart(t)
		}
		return s
	})
}

// The leader dies, and all servers one after the other: another one is asked, and nothing goes.
func TestServersOfAnEnsembleThatDie(t *testing.T) {
	t.Parallel()
	e := zookeepertest.StartEnsemble(t, nil, nil)
	z, w := e.Client(t), openWays(t, e)
	z.Put("/services/web/1", at("10.0.0.1"))
	r := watch(t, w.servers(), quick)
	r.UntilThere(t, "zookeeper.web")

	leader := e.Leader()
	e.Servers[leader].Kill()
	z.Put("/services/web/2", at("10.0.0.2"))
	r.Until(t, "what was registered with the next leader", func() bool { return len(r.addresses("zookeeper.web")) == 2 })
	require.NotEqual(t, leader, e.Leader())
	e.Servers[leader].Run()

	for range e.Servers {
		e.Restart(t)
		r.RequireThere(t, "zookeeper.web")
	}
	z.Put("/services/more/1", at("10.0.0.3"))
	r.UntilThere(t, "zookeeper.web", "zookeeper.more")
}

// A server that is cut off from the others tells nothing. Another one is asked, though this one takes
// connections still.
func TestAServerOfAnEnsembleThatIsCutOff(t *testing.T) {
	t.Parallel()
	e := zookeepertest.StartEnsemble(t, nil, nil)
	z, w := e.Client(t), openWays(t, e)
	z.Put("/services/web/1", at("10.0.0.1"))
	alone := (e.Leader() + 1) % len(e.Servers) // a follower
	w.shut(alone)
	r := watch(t, w.servers(), quick)
	r.UntilThere(t, "zookeeper.web")

	e.CutOff(alone)
	r.UntilAway(t, "", "zookeeper.web")
	z.Put("/services/web/2", at("10.0.0.2"))
	w.unshut()
	r.Until(t, "what the others have", func() bool { return r.Reason == nil && len(r.addresses("zookeeper.web")) == 2 })
	e.Rejoin(alone)
	w.shut(alone)
	z.Remove("/services/web/1")
	r.Until(t, "what the server has now", func() bool { return slices.Equal(r.addresses("zookeeper.web"), []string{"10.0.0.2"}) })
}

// A leader that has lost the others does not know it for a while. Where sessions are local it gives
// them still, and answers that nothing is newer than what it has. It takes nothing back.
func TestAServerThatLagsTakesNothingBack(t *testing.T) {
	t.Parallel()
	const longest = "1000" // ticks until it knows
	e := zookeepertest.StartEnsemble(t, zookeepertest.Config{"localSessionsEnabled": "true"}, zookeepertest.Config{"syncLimit": longest})
	z, w := e.Client(t), openWays(t, e)
	z.Put("/services/web/1", at("10.0.0.1"))
	old := len(e.Servers) - 1
	require.Equal(t, old, e.Leader())
	w.shut(old)
	stale := watch(t, w.servers(), quick)
	stale.UntilThere(t, "zookeeper.web")

	e.CutOff(old)
	w.unshut()
	w[old].Shut()
	r := watch(t, w.servers(), quick)
	z.Put("/services/new/1", at("10.0.0.2"))
	r.UntilThere(t, "zookeeper.web", "zookeeper.new")
	w.shut(old)
	r.UntilAway(t, "it lags behind", "zookeeper.web", "zookeeper.new")
	unaware := watch(t, w.servers(), quick)
	unaware.UntilThere(t, "zookeeper.web") // the server itself has no doubts
	r.RequireThere(t, "zookeeper.web", "zookeeper.new")
	w.unshut()
	r.Until(t, "others are asked", func() bool { return r.Reason == nil })
	r.RequireThere(t, "zookeeper.web", "zookeeper.new")
}
