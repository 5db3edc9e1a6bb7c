package ads_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// outliving is served where something that is gone may be in use.
func outliving(cfg *ads.Config) { cfg.Outlive = func(typeURL string) bool { return typeURL == hosts } }

func TestWhatIsLeftOfSomethingThatIsGoneStays(t *testing.T) {
	t.Parallel()
	s := serve(t, outliving)
	s.publish("r1", sets{hosts: set("80/a=1", "80/b=1", "80/c=1", "81/a=1", "81/b=1")})
	c := s.delta()
	c.ask(hosts)
	c.ack(c.expect(hosts, "r1", "80/a=1", "80/b=1", "80/c=1", "81/a=1", "81/b=1").without(t))
	// A part goes as ever.
	s.publish("r2", sets{hosts: set("80/a=1", "80/b=1", "81/a=1", "81/b=1")})
	c.ack(c.expect(hosts, "r2").without(t, "80/c"))
	// All does not, whatever else happens.
	s.publish("r3", sets{hosts: set("81/a=1", "81/b=1")})
	c.quiet()
	s.publish("r4", sets{hosts: set("81/a=2", "82/a=1")})
	c.ack(c.expect(hosts, "r4", "81/a=2", "82/a=1").without(t, "81/b"))
	// What comes back is brought up to date with what the client has of it.
	s.publish("r5", sets{hosts: set("80/b=2", "80/d=1", "81/a=2", "82/a=1")})
	c.ack(c.expect(hosts, "r5", "80/b=2", "80/d=1").without(t, "80/a"))
	s.publish("r6", sets{hosts: set("80/b=2", "81/a=2", "82/a=1")})
	c.ack(c.expect(hosts, "r6").without(t, "80/d"))
	c.quiet()
}

func TestAClientThatComesBackKeepsWhatIsLeft(t *testing.T) {
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

func TestWhoAsksForNothingMoreHasNothingLeft(t *testing.T) {
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

// Of a refusal of what is gone there is nothing left either.
func TestARefusalEndsWithWhatWasRefused(t *testing.T) {
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

// A state of the world has in it all that a client is to have.
func TestAStateOfTheWorldHasNothingLeft(t *testing.T) {
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
