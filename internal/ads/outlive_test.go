package ads_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// outliving serves clients that may still use hosts whose owner is gone.
func outliving(cfg *ads.Config) { cfg.Outlive = func(typeURL string) bool { return typeURL == hosts } }

func TestOwnedResourcesOutliveTheirOwner(t *testing.T) {
	t.Parallel()
	s := serve(t, outliving)
	s.publish("r1", sets{hosts: set("80/a=1", "80/b=1", "80/c=1", "81/a=1", "81/b=1")})
	c := s.delta()
	c.ask(hosts)
	c.ack(c.expect(hosts, "r1", "80/a=1", "80/b=1", "80/c=1", "81/a=1", "81/b=1").without(t))
	// A single host is removed as usual.
	s.publish("r2", sets{hosts: set("80/a=1", "80/b=1", "81/a=1", "81/b=1")})
	c.ack(c.expect(hosts, "r2").without(t, "80/c"))
	// All hosts of an owner are not, whatever else happens.
	s.publish("r3", sets{hosts: set("81/a=1", "81/b=1")})
	c.quiet()
	s.publish("r4", sets{hosts: set("81/a=2", "82/a=1")})
	c.ack(c.expect(hosts, "r4", "81/a=2", "82/a=1").without(t, "81/b"))
	// If the owner returns, what the client has left is updated.
	s.publish("r5", sets{hosts: set("80/b=2", "80/d=1", "81/a=2", "82/a=1")})
	c.ack(c.expect(hosts, "r5", "80/b=2", "80/d=1").without(t, "80/a"))
	s.publish("r6", sets{hosts: set("80/b=2", "81/a=2", "82/a=1")})
	c.ack(c.expect(hosts, "r6").without(t, "80/d"))
	c.quiet()
}

func TestAReturningClientKeepsWhatOutlivedItsOwner(t *testing.T) {
	t.Parallel()
	s := serve(t, outliving)
	s.publish("r1", sets{hosts: set("81/a=2")})
	c := s.delta()
	c.send(ask{typeURL: hosts, held: map[string]string{"80/a": "1", "81/a": "1", "81/b": "1"}})
	c.ack(c.expect(hosts, "r1", "81/a=2").without(t, "81/b"))
	s.publish("r2", sets{hosts: set("80/b=1", "81/a=2")})
	c.ack(c.expect(hosts, "r2", "80/b=1").without(t, "80/a"))
	c.quiet()
}

func TestAClientThatUnsubscribesHasNothingLeft(t *testing.T) {
	t.Parallel()
	s := serve(t, outliving)
	s.publish("r1", sets{hosts: set("80/a=1", "81/a=1")})
	c := s.delta()
	c.ask(hosts)
	c.ack(c.expect(hosts, "r1", "80/a=1", "81/a=1"))
	s.publish("r2", sets{hosts: set("81/a=1")})
	c.quiet()
	c.send(ask{typeURL: hosts, unsubscribe: []string{"*"}})
	c.send(ask{typeURL: hosts, subscribe: []string{"*"}})
	c.ack(c.expect(hosts, "r2", "81/a=1").without(t))
	s.publish("r3", sets{hosts: set("80/a=1", "81/a=1")})
	c.ack(c.expect(hosts, "r3", "80/a=1"))
	c.quiet()
}

// The refusal of a host ends when its owner is gone.
func TestARefusalEndsWithTheOwner(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) { outliving(cfg); cfg.Quarantine = true })
	s.publish("r1", sets{hosts: set("80/a=bad", "81/a=1")})
	c := s.delta()
	c.ask(hosts)
	c.nack(c.expect(hosts, "r1", "80/a=bad", "81/a=1"), `80/a is bad`)
	c.ack(c.expect(hosts, "r1", "81/a=1"))
	c.nack(c.expect(hosts, "r1", "80/a=bad"), "80/a is bad")
	s.publish("r2", sets{hosts: set("81/a=2")})
	c.ack(c.expect(hosts, "r2", "81/a=2").without(t))
	c.quiet()
}

// A state of the world lists everything that the client is to have.
func TestInAStateOfTheWorldNothingOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	s := serve(t, outliving)
	s.publish("r1", sets{hosts: set("80/a=1", "81/a=1")})
	c := s.sotw()
	c.ask(hosts)
	c.ack(c.expect(hosts, "r1", "80/a=1", "81/a=1"))
	s.publish("r2", sets{hosts: set("81/a=1")})
	c.ack(c.expect(hosts, "r2", "81/a=1"))
	c.quiet()
}
