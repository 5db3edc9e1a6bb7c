package zookeepertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Ensemble is three servers that keep the same.
type Ensemble struct {
	Servers [members]*Server

	t    testing.TB
	ways [members][members][]*gate.Gate // from a server to another: how it is asked, and elected
	next int                            // which server Restart restarts
}

// members is how many servers lose one and go on.
const members = 3

// StartEnsemble runs three servers that end with the test. More is the configuration of all of them,
// and of the last one, which is the leader at first.
func StartEnsemble(t testing.TB, more, ofLast Config) *Ensemble {
	t.Helper()
	e := &Ensemble{t: t}
	ports := [members][2]int{}
	for i := range members {
		e.Servers[i] = newServer(t)
		ports[i] = [2]int{port(t), port(t)}
	}
	for i := range members {
		// One may be elected that the other two do not follow, for they have begun another election: it
		// waits for them for initLimit, and they wait for it.
		config := Config{"initLimit": "10", "syncLimit": "4"}
		maps.Copy(config, more)
		if i == members-1 {
			maps.Copy(config, ofLast)
		}
		e.configure(i, ports, config)
	}
	t.Cleanup(e.end)
	e.run(t, 1, 2) // the last of two is elected
	e.run(t, 0)
	return e
}

// configure tells a server where the others are: behind gates that are for it alone.
func (e *Ensemble) configure(i int, ports [members][2]int, config Config) {
	e.t.Helper()
	for j, at := range ports {
		if j != i {
			for k := range at {
				way := gate.Open(e.t, loopback(at[k]))
				e.ways[i][j] = append(e.ways[i][j], way)
				at[k] = portOf(way.Address())
			}
		}
		config[fmt.Sprintf("server.%d", j)] = fmt.Sprintf("127.0.0.1:%d:%d", at[0], at[1])
	}
	s := e.Servers[i]
	s.configure(config)
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.data(), "myid"), []byte(strconv.Itoa(i)), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	return port
}

func (e *Ensemble) end() {
	for _, s := range e.Servers {
		s.Kill()
	}
	for _, s := range e.Servers {
		s.showLog()
	}
}

// run runs servers, and waits until they serve.
func (e *Ensemble) run(t testing.TB, which ...int) {
	t.Helper()
	for _, i := range which {
		e.Servers[i].run()
	}
	for _, i := range which {
		e.Servers[i].serves(t)
	}
}

// Client returns a client that ends with a test.
func (e *Ensemble) Client(t testing.TB) *Client {
	t.Helper()
	c := &Client{t: t}
	addresses := make([]string, members)
	for i, s := range e.Servers {
		addresses[i] = s.Address
	}
	c.connect(addresses...)
	t.Cleanup(func() { c.close(); c.wait() })
	c.Ready()
	return c
}

// Leader says which server leads.
func (e *Ensemble) Leader() (leader int) {
	e.t.Helper()
	poll.Eventually(e.t, func(context.Context) error {
		for i, s := range e.Servers {
			if state, err := s.says("zk_server_state"); err == nil && state == "leader" {
				leader = i
				return nil
			}
		}
		return errors.New("there is no leader")
	})
	return leader
}

// Restart kills one server, each time the next, and starts it again with what it had. It returns when
// it serves, so that the others need not wait for it.
func (e *Ensemble) Restart(t testing.TB) {
	t.Helper()
	which := e.next % members
	e.next++
	e.Servers[which].Kill()
	e.run(t, which)
}

// CutOff severs a server from the other two, and Rejoin gives them back.
func (e *Ensemble) CutOff(which int) {
	for _, way := range e.waysOf(which) {
		way.Sever()
	}
}

// Rejoin undoes CutOff, and returns when the server serves.
func (e *Ensemble) Rejoin(which int) {
	e.t.Helper()
	for _, way := range e.waysOf(which) {
		way.Release()
	}
	e.Servers[which].serves(e.t)
}

// waysOf are those that lead to a server and from it.
func (e *Ensemble) waysOf(which int) (all []*gate.Gate) {
	for i := range members {
		all = append(all, e.ways[which][i]...)
		all = append(all, e.ways[i][which]...)
	}
	return all
}
