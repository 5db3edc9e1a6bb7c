package ads_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// hosts belong to routes.
const hosts = "test/Host"

func withHosts(cfg *ads.Config) { cfg.Belongs = map[string]string{hosts: routes} }

// serveHosts serves a state with two routes, and asks for one of them and for all hosts.
func serveHosts(t *testing.T) (*server, *client) {
	t.Helper()
	s := serve(t, withHosts)
	s.publish("r1", sets{routes: set("80=1", "81=1"), hosts: set("80/a=1", "80/b=1", "81/a=1")})
	c := s.delta()
	c.ask(routes, "80")
	c.ask(hosts)
	c.ack(c.expect(routes, "r1", "80=1"))
	c.ack(c.expect(hosts, "r1", "80/a=1", "80/b=1").without(t))
	return s, c
}

func TestOwnedResourcesFollowTheirOwner(t *testing.T) {
	t.Parallel()
	s := serve(t, withHosts)
	s.publish("r1", sets{routes: set("80=1", "81=1"), hosts: set("80/a=1", "80/b=1", "81/a=1")})
	c := s.delta()
	c.ask(hosts)
	c.quiet() // their owners are not known yet
	c.ask(routes, "80")
	rds := c.expect(routes, "r1", "80=1")
	c.quiet() // nor whether the client takes it
	c.ack(rds)
	c.ack(c.expect(hosts, "r1", "80/a=1", "80/b=1"))

	c.send(ask{typeURL: routes, subscribe: []string{"81"}})
	c.ack(c.expect(routes, "r1", "81=1"))
	c.ack(c.expect(hosts, "r1", "81/a=1"))

	// A change of hosts sends those hosts, and not their route.
	s.publish("r2", sets{routes: set("80=1", "81=1"), hosts: set("80/a=2", "80/c=1", "81/a=1")})
	c.ack(c.expect(hosts, "r2", "80/a=2", "80/c=1").without(t, "80/b"))
	// A change of the route goes first, and takes no host away.
	s.publish("r3", sets{routes: set("80=2", "81=1"), hosts: set("80/a=2", "80/c=2", "81/a=1")})
	rds = c.expect(routes, "r3", "80=2")
	c.quiet()
	c.ack(rds)
	c.ack(c.expect(hosts, "r3", "80/c=2").without(t))
	c.quiet()
}

func TestNothingFollowsARefusedOwner(t *testing.T) {
	t.Parallel()
	s := serve(t, withHosts)
	s.publish("r1", sets{routes: set("80=bad"), hosts: set("80/a=1")})
	c := s.delta()
	c.ask(routes, "80")
	c.ask(hosts)
	c.nack(c.expect(routes, "r1", "80=bad"), "bad")
	c.ack(c.expect(hosts, "r1")) // the first request is answered, as for any type
	s.publish("r2", sets{routes: set("80=bad"), hosts: set("80/a=2")})
	c.quiet()
	s.publish("r3", sets{routes: set("80=good"), hosts: set("80/a=2")})
	c.ack(c.expect(routes, "r3", "80=good"))
	c.ack(c.expect(hosts, "r3", "80/a=2"))
	c.quiet()
}

func TestOwnedResourcesAreForgottenWithTheirOwner(t *testing.T) {
	t.Parallel()
	s, c := serveHosts(t)
	c.send(ask{typeURL: routes, unsubscribe: []string{"80"}})
	c.ack(c.expect(hosts, "r1").without(t, "80/a", "80/b"))
	s.publish("r2", sets{routes: set("80=1", "81=1"), hosts: set("80/a=2", "80/b=1", "81/a=1")})
	c.quiet()

	c.send(ask{typeURL: routes, subscribe: []string{"80"}})
	c.ack(c.expect(routes, "r2", "80=1"))
	c.ack(c.expect(hosts, "r2", "80/a=2", "80/b=1"))
	c.quiet()
}

// Envoy asks again for a route configuration if one change removes its listener and adds another
// that needs it.
func TestAClientThatAsksForAnOwnerAgainIsSentEverythingAgain(t *testing.T) {
	t.Parallel()
	s, c := serveHosts(t)
	s.publish("r2", sets{routes: set("80=1", "81=1"), hosts: set("80/a=2", "80/b=1", "81/a=1")})
	eds := c.expect(hosts, "r2", "80/a=2")
	c.send(ask{typeURL: routes, subscribe: []string{"80"}})
	c.quiet() // what is on its way comes first
	c.ack(eds)
	gone := c.expect(hosts, "r2").without(t, "80/a", "80/b")
	rds := c.expect(routes, "r2", "80=1")
	c.ack(gone)
	c.quiet()
	c.ack(rds)
	c.ack(c.expect(hosts, "r2", "80/a=2", "80/b=1"))
	c.quiet()
}

func TestOwnedResourcesStayWhileTheirOwnerIsAskedFor(t *testing.T) {
	t.Parallel()
	s, c := serveHosts(t)
	s.publish("r2", sets{routes: set("81=1"), hosts: set("81/a=1")})
	c.ack(c.expect(routes, "r2").without(t, "80"))
	c.quiet() // Envoy uses it until its listener is gone
	s.publish("r3", sets{routes: set("80=1", "81=1"), hosts: set("80/b=1", "80/c=1", "81/a=1")})
	c.ack(c.expect(routes, "r3", "80=1"))
	c.ack(c.expect(hosts, "r3", "80/c=1").without(t, "80/a"))
	s.publish("r4", sets{routes: set("81=1"), hosts: set("81/a=1")})
	c.ack(c.expect(routes, "r4").without(t, "80"))
	c.send(ask{typeURL: routes, unsubscribe: []string{"80"}})
	c.ack(c.expect(hosts, "r4").without(t, "80/b", "80/c"))
	c.quiet()
}

func TestAReturningClientIsSentTheOwnedResourcesThatDiffer(t *testing.T) {
	t.Parallel()
	s := serve(t, withHosts)
	s.publish("r1", sets{
		routes: set("80=1", "81=1", "82=1"),
		hosts:  set("80/a=2", "80/b=1", "81/a=1", "82/a=1"),
	})
	c := s.delta()
	c.send(ask{typeURL: hosts, held: map[string]string{"80/a": "1", "80/b": "1", "80/c": "1", "81/a": "1", "81/b": "1", "82/a": "1"}})
	c.quiet() // it must not be told that all is gone before it has said what it asks for
	c.send(ask{typeURL: routes, subscribe: []string{"80", "81"}, held: map[string]string{"80": "1"}})
	// The client names hosts of 81, which it does not have, and of 82, which it does not ask for.
	// Both are lost.
	gone := c.expect(hosts, "r1").without(t, "81/a", "81/b", "82/a")
	rds := c.expect(routes, "r1", "81=1")
	c.ack(gone)
	c.ack(rds)
	c.ack(c.expect(hosts, "r1", "80/a=2", "81/a=1").without(t, "80/c"))
	c.quiet()
}

func TestAStateOfTheWorldHasNoOwners(t *testing.T) {
	t.Parallel()
	s := serve(t, withHosts)
	s.publish("r1", sets{routes: set("80=1"), hosts: set("80/a=1")})
	c := s.sotw()
	c.ask(hosts)
	c.ack(c.expect(hosts, "r1", "80/a=1"))
	c.ask(routes, "80")
	c.ack(c.expect(routes, "r1", "80=1"), "80")
	c.quiet()
}
