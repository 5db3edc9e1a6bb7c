package ads_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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

// A client uses an extension for as long as it asks for it, whatever becomes of that.
func TestWhatLingersIsNotRemoved(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) { cfg.Linger = func(typeURL string) bool { return typeURL == endpoints } })
	s.publish("r1", sets{endpoints: set("a=1", "b=1")})
	c := s.delta()
	c.ask(endpoints, "a", "b", "none")
	c.ack(c.expect(endpoints, "r1", "a=1", "b=1").without(t, "none"))
	s.publish("r2", sets{endpoints: set("b=2")})
	c.ack(c.expect(endpoints, "r2", "b=2").without(t))
	c.quiet()
	// It has what it had, and is sent what differs.
	s.publish("r3", sets{endpoints: set("a=1", "b=2")})
	c.quiet()
	s.publish("r4", sets{endpoints: set("b=2")})
	s.publish("r5", sets{endpoints: set("a=2", "b=2")})
	c.ack(c.expect(endpoints, "r5", "a=2"))
	// What it has let go of is gone.
	s.publish("r6", sets{endpoints: set("b=2")})
	c.send(ask{typeURL: endpoints, unsubscribe: []string{"a"}})
	c.send(ask{typeURL: endpoints, subscribe: []string{"a"}})
	c.ack(c.expect(endpoints, "r6").without(t, "a"))
	c.quiet()
}

func TestAReturningClientKeepsWhatLingers(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) { cfg.Linger = func(typeURL string) bool { return typeURL == endpoints } })
	s.publish("r1", sets{endpoints: set("b=2")})
	c := s.delta()
	c.send(ask{typeURL: endpoints, subscribe: []string{"a", "b"}, held: map[string]string{"a": "1", "b": "1"}})
	c.ack(c.expect(endpoints, "r1", "b=2").without(t))
	c.quiet()
}

// The refusal of what lingers ends when it is gone, although the client keeps what it accepted.
func TestARefusalEndsWithWhatLingers(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) {
		cfg.Linger = func(typeURL string) bool { return typeURL == endpoints }
		cfg.Quarantine = true
	})
	s.publish("r1", sets{endpoints: set("a=1")})
	c := s.delta()
	c.ask(endpoints, "a")
	c.ack(c.expect(endpoints, "r1", "a=1"))
	s.publish("r2", sets{endpoints: set("a=bad")})
	c.nack(c.expect(endpoints, "r2", "a=bad"), "a is bad")
	c.quiet()
	require.Len(t, stateOf(t, s)[endpoints].Refused, 1)
	s.publish("r3", nil)
	c.quiet()
	require.Empty(t, stateOf(t, s)[endpoints].Refused)
}
