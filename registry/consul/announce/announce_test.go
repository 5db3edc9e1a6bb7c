package announce_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/registry/announce"
	consul "github.com/pgmesh/pgmesh/registry/consul/announce"
	"github.com/pgmesh/pgmesh/registry/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is one that announces, with what it has reported.
type server struct {
	t      *testing.T
	wanted announce.Wanted
	stop   func()

	mu     sync.Mutex
	away   error
	bad    map[string]error
	writes bool
	wrote  int
}

func (s *server) Away(err error) { s.set(func() { s.away = err }) }

func (s *server) Bad(wrong map[string]error) { s.set(func() { s.bad = maps.Clone(wrong) }) }

func (s *server) Writes(is bool, _ int) { s.set(func() { s.writes = is }) }

func (s *server) Wrote(changes int) { s.set(func() { s.wrote += changes }) }

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// run runs a server that announces at an address, until it is stopped or the test ends.
func run(t *testing.T, address, parameters string) *server {
	t.Helper()
	at, err := url.Parse("consul://" + address + "/?timeout=1s&" + parameters)
	require.NoError(t, err)
	a, err := consul.Open(at, reload.Options{})
	require.NoError(t, err)
	s := &server{t: t}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, &s.wanted, s) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	t.Cleanup(s.stop)
	t.Cleanup(func() {
		s.set(func() { t.Logf("away: %v, bad: %v, writes: %v, %d changes", s.away, s.bad, s.writes, s.wrote) })
	})
	return s
}

func (s *server) want(mesh string, services ...*service.Service) {
	all := map[string]*service.Service{}
	for _, each := range services {
		all[each.Namespace+"/"+each.Name] = each
	}
	s.wanted.Want(&announce.Services{Mesh: mesh, All: all})
}

func (s *server) until(what string, holds func() bool) {
	s.t.Helper()
	poll.Eventually(s.t, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if holds() {
			return nil
		}
		return fmt.Errorf("%s: away: %v, bad: %v, writes: %v, %d changes", what, s.away, s.bad, s.writes, s.wrote) //nolint:errorlint // it is shown
	})
}

func web(addresses ...string) *service.Service {
	s := &service.Service{Name: "web", Namespace: "shop", Ports: []service.Port{{Name: "http", Number: 80, Protocol: "HTTP", Target: 8080}}}
	for _, a := range addresses {
		s.Instances = append(s.Instances, service.Instance{Address: a, Labels: map[string]string{"version": "v1", "tag.consul/blue": "true"}})
	}
	return s
}

// found is an instance as a client of Consul sees it.
type found struct {
	Node    struct{ Node string }
	Service struct {
		ID, Address string
		Port        int
		Tags        []string
		Meta        map[string]string
		Weights     struct{ Passing int }
	}
	Checks []struct{ Status string }
}

func ask(t *testing.T, c *consultest.Consul, name string) (all []found) {
	t.Helper()
	require.NoError(t, json.Unmarshal(c.Get("/v1/health/service/"+name), &all))
	return all
}

// texts are the instances of a service, each as address:port with the worst status.
func texts(t *testing.T, c *consultest.Consul, name string) []string {
	t.Helper()
	var out []string
	for _, f := range ask(t, c, name) {
		status := "passing"
		for _, check := range f.Checks {
			if check.Status != "passing" {
				status = check.Status
			}
		}
		out = append(out, fmt.Sprintf("%s:%d %s %d", f.Service.Address, f.Service.Port, status, f.Service.Weights.Passing))
	}
	slices.Sort(out)
	return out
}

func untilConsulHas(t *testing.T, c *consultest.Consul, name string, wanted ...string) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		if got := texts(t, c, name); !slices.Equal(got, wanted) {
			return fmt.Errorf("Consul has %v of %s, not %v", got, name, wanted)
		}
		return nil
	})
}

func TestServicesAreAnnounced(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	s := run(t, c.Address, "tag=mesh")
	s.want("m", web("10.0.0.1", "10.0.0.2"))
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1", "10.0.0.2:8080 passing 1")
	one := ask(t, c, "web")[0]
	require.Equal(t, "pgmesh", one.Node.Node)
	require.Equal(t, []string{"mesh", "blue"}, one.Service.Tags)
	require.Equal(t, map[string]string{
		"external-source": "pgmesh", "pgmesh-announcer": "pgmesh", "pgmesh-resource": "shop/web", "protocol": "http", "version": "v1",
	}, one.Service.Meta)

	changed := web("10.0.0.2", "10.0.0.3")
	changed.Instances[0].Health, changed.Instances[1].Weight = service.Unhealthy, 7
	s.want("m", changed)
	untilConsulHas(t, c, "web", "10.0.0.2:8080 critical 1", "10.0.0.3:8080 passing 7")
	s.want("m")
	untilConsulHas(t, c, "web")
}

// A service of Consul has one port.
func TestFurtherPortsAreServicesOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	s := run(t, c.Address, "prefix=mesh-")
	two := web("10.0.0.1")
	two.Ports = append(two.Ports, service.Port{Name: "admin", Number: 9000})
	s.want("m", two)
	untilConsulHas(t, c, "mesh-web", "10.0.0.1:8080 passing 1")
	untilConsulHas(t, c, "mesh-web-admin", "10.0.0.1:9000 passing 1")
}

// What others have at the same node, or under the same name, is theirs.
func TestNothingOfOthersIsTouched(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	for _, i := range []consultest.Instance{
		{ID: "alien", Service: "alien", Node: "pgmesh", Address: "10.9.9.1", Port: 1, Status: "passing"},
		{ID: "marked", Service: "alien", Node: "pgmesh", Address: "10.9.9.2", Port: 1, Status: "passing", Meta: map[string]string{"external-source": "pgmesh", "pgmesh-announcer": "other"}},
		{ID: "native", Service: "web", Node: "machine", Address: "10.9.9.3", Port: 1, Status: "passing"},
	} {
		c.Register(i)
	}
	s := run(t, c.Address, "")
	s.want("m", web("10.0.0.1"))
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1", "10.9.9.3:1 passing 1")
	s.want("m")
	untilConsulHas(t, c, "web", "10.9.9.3:1 passing 1")
	require.Len(t, ask(t, c, "alien"), 2)
}

func TestOneServerWritesAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	way := gate.Open(t, c.Address)
	first := run(t, way.Address(), "")
	first.want("m", web("10.0.0.1"))
	first.until("it writes", func() bool { return first.writes })
	second := run(t, c.Address, "")
	second.want("m", web("10.0.0.2"))
	second.until("it has asked", func() bool { return second.away == nil })
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1")
	require.Zero(t, second.wrote)

	way.Shut() // the first is cut off, and its session ends by itself
	first.until("it is away", func() bool { return first.away != nil && !first.writes })
	poll.Within(t, time.Minute, func(context.Context) error {
		if got := texts(t, c, "web"); !slices.Equal(got, []string{"10.0.0.2:8080 passing 1"}) {
			return fmt.Errorf("nobody has taken over: %v", got)
		}
		return nil
	})
	way.Unshut()
	first.until("it waits", func() bool { return first.away == nil })
	first.want("m", web("10.0.0.3"))
	untilConsulHas(t, c, "web", "10.0.0.2:8080 passing 1")

	second.stop() // it releases the lock
	untilConsulHas(t, c, "web", "10.0.0.3:8080 passing 1")
}

// A server that does not know what the mesh has now changes nothing, and lets others write.
func TestWhoDoesNotKnowKeepsEverything(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	first, second := run(t, c.Address, ""), run(t, c.Address, "")
	first.want("m", web("10.0.0.1"))
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1")
	first.wanted.Want(nil)
	first.until("it no longer writes", func() bool { return !first.writes })
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1")
	second.want("m", web("10.0.0.1", "10.0.0.2"))
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1", "10.0.0.2:8080 passing 1")
}

func TestAnotherMeshIsKeptFromTakingServicesAway(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	first := run(t, c.Address, "")
	first.want("m", web("10.0.0.1"))
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1")
	first.stop()
	other := run(t, c.Address, "")
	other.want("n")
	other.until("it is told", func() bool { return other.away != nil && strings.Contains(other.away.Error(), "another mesh (m, by ") })
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1")
	c.Delete("/v1/kv/pgmesh/announce/pgmesh")
	untilConsulHas(t, c, "web")
}

func TestWhatCannotBeAnnouncedIsToldAlone(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	s := run(t, c.Address, "")
	named := func(namespace, name string, created time.Time) *service.Service {
		out := web("10.0.0.1")
		out.Namespace, out.Name, out.Created = namespace, name, created
		return out
	}
	portless := named("shop", "portless", time.Time{})
	portless.Ports = nil
	s.want("m",
		named("shop", "web", time.Unix(2, 0)), named("early", "web", time.Unix(1, 0)),
		named("shop", "a.b", time.Time{}), named("shop", "consul", time.Time{}), portless)
	s.until("they are told", func() bool { return len(s.bad) == 4 && s.writes })
	require.ErrorContains(t, s.bad["shop/web"], `the older early/web is announced as "web" already`)
	require.ErrorContains(t, s.bad["shop/a.b"], "no name that Consul's DNS can answer for")
	require.ErrorContains(t, s.bad["shop/consul"], "what the servers of Consul are called")
	require.ErrorContains(t, s.bad["shop/portless"], "no port")
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1")
	require.Equal(t, "early/web", ask(t, c, "web")[0].Service.Meta["pgmesh-resource"])
}

// A token that may write some services alone costs the others nothing.
func TestRightsOverSomeServices(t *testing.T) {
	t.Parallel()
	const management, mine = "8d0f5c1e-0000-4000-8000-000000000001", "8d0f5c1e-0000-4000-8000-00000000000a"
	c := consultest.StartAs(t, management, consultest.Config{"acl": consultest.Config{
		"enabled": true, "default_policy": "deny", "tokens": consultest.Config{"initial_management": management, "agent": management},
	}})
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(mine), 0o600))
	s := run(t, c.Address, "token-file="+url.QueryEscape(file))
	vault := web("10.0.0.9")
	vault.Name = "vault"
	s.want("m", web("10.0.0.1"), vault)
	s.until("the token is unknown", func() bool { return s.away != nil && strings.Contains(s.away.Error(), "403 Forbidden") })
	c.Put("/v1/acl/policy", consultest.Config{"Name": "announcer", "Rules": `
		node "pgmesh" { policy = "write" }
		service_prefix "web" { policy = "write" }
		session_prefix "" { policy = "write" }
		key_prefix "pgmesh/announce/" { policy = "write" }`})
	c.Put("/v1/acl/token", consultest.Config{"SecretID": mine, "AccessorID": "a" + mine[1:], "Policies": []consultest.Config{{"Name": "announcer"}}})
	untilConsulHas(t, c, "web", "10.0.0.1:8080 passing 1")
	s.until("the other is told", func() bool { return s.bad["shop/vault"] != nil })
	require.ErrorContains(t, s.bad["shop/vault"], "Permission denied")
	require.Empty(t, texts(t, c, "vault"))
}

func TestSettingsAreRefusedWithWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for address, wrong := range map[string]string{
		"consul:///":                       "it names no agent",
		"consul://127.0.0.1/?name=A":       `"A" cannot be the name of a node`,
		"consul://127.0.0.1/?prefix=a.b":   `"a.b" cannot begin the names of services`,
		"consul://127.0.0.1/?from=A":       `from: "A" is no namespace of the mesh`,
		"consul://127.0.0.1/?rate=0":       `rate: "0" is no number from 1 to 100000`,
		"consul://127.0.0.1/?names=a":      `there is no parameter names: did you mean "name"?`,
		"consul://127.0.0.1/?token-file=/": "is a directory",
	} {
		at, err := url.Parse(address)
		require.NoError(t, err)
		_, err = consul.Open(at, reload.Options{})
		require.ErrorContains(t, err, wrong, address)
	}
}

// many is how many random operations there are.
func many(t *testing.T) int {
	t.Helper()
	text := os.Getenv("PGMESH_REGISTRY_OPERATIONS")
	if text == "" {
		return 150
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// Servers come, go and are cut off, Consul is restarted, somebody deletes what was announced: in the
// end Consul has what is wanted. A service that is wanted all the time is never gone.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	way := gate.Open(t, c.Address)
	rng := rand.New(rand.NewPCG(uint64(many(t)), 7))
	lasting := web("10.0.0.1")
	lasting.Name = "lasting"
	now := map[string]*service.Service{"shop/lasting": lasting}
	servers := []*server{run(t, c.Address, ""), run(t, way.Address(), "")}
	want := func() {
		for _, s := range servers {
			s.wanted.Want(&announce.Services{Mesh: "m", All: maps.Clone(now)})
		}
	}
	want()
	untilConsulHas(t, c, "lasting", "10.0.0.1:8080 passing 1")
	for range many(t) {
		switch n := rng.IntN(100); {
		case n < 80:
			one := web()
			one.Name = fmt.Sprint("web-", rng.IntN(20))
			for k := range rng.IntN(5) {
				one.Instances = append(one.Instances, service.Instance{Address: fmt.Sprintf("10.0.1.%d", k), Weight: 1 + rng.Uint32N(3), Health: service.Health(rng.IntN(2))})
			}
			if now["shop/"+one.Name] = one; rng.IntN(4) == 0 {
				delete(now, "shop/"+one.Name)
			}
		case n < 85:
			servers[0].stop()
			servers[0] = run(t, c.Address, "")
		case n < 90:
			way.Shut()
			way.Unshut()
		case n < 93:
			servers[rng.IntN(2)].wanted.Want(nil)
			continue
		case n < 95:
			c.Restart()
		}
		want()
		require.Equal(t, []string{"10.0.0.1:8080 passing 1"}, texts(t, c, "lasting"))
	}
	for i := range 20 {
		name := fmt.Sprint("web-", i)
		var wanted []string
		if s := now["shop/"+name]; s != nil {
			for _, each := range s.Instances {
				status := map[service.Health]string{service.Healthy: "passing", service.Unhealthy: "critical"}[each.Health]
				wanted = append(wanted, fmt.Sprintf("%s:8080 %s %d", each.Address, status, each.Weight))
			}
		}
		poll.Within(t, time.Minute, func(context.Context) error {
			if got := texts(t, c, name); !slices.Equal(got, wanted) {
				return fmt.Errorf("Consul has %v of %s, not %v", got, name, wanted)
			}
			return nil
		})
	}
}
