package ads_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

func TestSotWAbsentMeansGone(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	line := set("a=1", "b=1")
	s.publish("r1", sets{clusters: line})
	c := s.sotw()
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1", "a=1", "b=1"))
	line = line.With(nil, []string{"a"})
	s.publish("r2", sets{clusters: line})
	c.ack(c.expect(clusters, "r2", "b=1"))
	s.publish("r3", nil)
	c.ack(c.expect(clusters, "r3"))
}

func TestSotWEmptyNonceAsksAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.publish("r1", sets{clusters: set("a=1"), endpoints: set("e=1", "f=1")})
	c := s.sotw()
	c.ask(clusters)
	first := c.expect(clusters, "r1", "a=1")
	c.ask(clusters) // as good as an answer to the first, and asks for all of it again
	second := c.expect(clusters, "r1", "a=1")
	c.ack(first)
	s.publish("r2", sets{clusters: set("a=2"), endpoints: set("e=1", "f=1")})
	c.quiet()
	c.ack(second)
	c.ack(c.expect(clusters, "r2", "a=2"))
	c.ask(endpoints, "e")
	c.ack(c.expect(endpoints, "r2", "e=1"), "e")
	c.ask(endpoints, "e", "f")
	c.ack(c.expect(endpoints, "r2", "e=1", "f=1"), "e", "f")
}

// An Envoy that starts waits for the endpoints of each cluster that it was sent. If the cluster has
// gone before it asks, they never come.
func TestSotWClientsAreToldThatWhatTheyWaitForIsGone(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) {
		cfg.Void = func(typeURL, name string) *served.Resource {
			if typeURL != endpoints {
				return nil
			}
			return res(name, "none")
		}
	})
	s.publish("r1", routedTo("old"))
	c := s.sotw()
	c.ask(clusters)
	first := c.expect(clusters, "r1", "old=1")
	s.publish("r2", sets{endpoints: set("new=1")}) // the cluster waits until the first response is answered
	c.ask(endpoints, "elsewhere", "old")
	c.ack(c.expect(endpoints, "r2", "old=none"), "elsewhere", "old")
	c.quiet()
	c.ack(first)
	c.ack(c.expect(clusters, "r2"))
	s.publish("r3", sets{endpoints: set("old=1")}) // it comes back
	c.ack(c.expect(endpoints, "r3", "old=1"), "elsewhere", "old")
}

func TestSotWClientsAskByName(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	line := set("a=1", "b=1", "c=1")
	s.publish("r1", sets{endpoints: line})
	c := s.sotw()
	c.ask(endpoints) // names nothing, wants nothing
	c.quiet()
	c.send(ask{typeURL: endpoints, names: []string{"a", "missing"}})
	first := c.expect(endpoints, "r1", "a=1")
	c.ack(first, "a", "missing")

	// One name more, by the nonce of the last response.
	c.ack(first, "a", "b", "missing")
	second := c.expect(endpoints, "r1", "b=1")
	c.ack(second, "a", "b", "missing")

	// A request for something that does not exist, or for less, needs no response.
	c.ack(second, "a", "b", "missing", "nowhere")
	c.ack(second, "b", "missing")
	c.quiet()
	line = line.With([]*served.Resource{res("a", "2"), res("c", "2")}, nil)
	s.publish("r2", sets{endpoints: line})
	c.quiet()

	// What did not exist is sent once it does. The form cannot express the removal of a name.
	line = line.With([]*served.Resource{res("missing", "1")}, []string{"b"})
	s.publish("r3", sets{endpoints: line})
	c.ack(c.expect(endpoints, "r3", "missing=1"), "b", "missing")
	s.publish("r4", sets{endpoints: line.With(nil, []string{"missing"})})
	c.quiet()
	s.publish("r5", sets{endpoints: line.With([]*served.Resource{res("missing", "1")}, nil)})
	c.ack(c.expect(endpoints, "r5", "missing=1"), "b", "missing")

	// Wanted once more.
	c.send(ask{typeURL: endpoints, nonce: "any", names: []string{"a", "b", "missing"}})
	c.expect(endpoints, "r5", "a=2")
}

func TestSotWClientsMayNameResourcesOfATypeWhoseAbsencesCount(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	line := set("a=1", "b=1", "c=1")
	s.publish("r1", sets{clusters: line})
	c := s.sotw()
	c.ask(clusters, "a", "b")
	c.ack(c.expect(clusters, "r1", "a=1", "b=1"), "a", "b")
	line = line.With([]*served.Resource{res("b", "2")}, nil)
	s.publish("r2", sets{clusters: line})
	c.ack(c.expect(clusters, "r2", "a=1", "b=2"), "a", "b") // all of it, or a would be gone
	s.publish("r3", sets{clusters: line.With(nil, []string{"a"})})
	c.ack(c.expect(clusters, "r3", "b=2"), "a", "b")
}

func TestSotWClientsMayLeaveTheWildcard(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	line := set("a=1", "b=1")
	s.publish("r1", sets{clusters: line})
	c := s.sotw()
	c.ask(clusters)
	first := c.expect(clusters, "r1", "a=1", "b=1")
	c.ack(first)
	c.ack(first, "*", "a")
	c.quiet()
	line = line.With([]*served.Resource{res("c", "1")}, nil)
	s.publish("r2", sets{clusters: line})
	second := c.expect(clusters, "r2", "a=1", "b=1", "c=1")
	c.ack(second, "a")
	c.quiet()
	s.publish("r3", sets{clusters: line.With([]*served.Resource{res("b", "2")}, nil)})
	c.quiet()
	c.ack(second) // nothing is wanted any more: it was named before
	c.quiet()
	s.publish("r4", sets{clusters: line.With([]*served.Resource{res("a", "2")}, nil)})
	c.quiet()
}
