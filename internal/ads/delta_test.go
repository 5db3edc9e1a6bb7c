package ads_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

func TestDeltaReconnectSendsOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.publish("r1", sets{clusters: set("changed=2", "new=1", "same=1")})
	c := s.delta()
	c.send(ask{typeURL: clusters, held: map[string]string{"changed": "1", "same": "1", "gone": "1"}})
	c.expect(clusters, "r1", "changed=2", "new=1").without(t, "gone")

	upToDate := s.delta()
	upToDate.send(ask{typeURL: clusters, held: map[string]string{"changed": "2", "same": "1", "new": "1"}})
	upToDate.expect(clusters, "r1").without(t) // a first request is answered even so
	upToDate.quiet()
}

func TestDeltaReconnectByNameSendsOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.publish("r1", sets{endpoints: set("changed=2", "other=1", "same=1", "unasked=2")})
	c := s.delta()
	c.send(ask{
		typeURL: endpoints, subscribe: []string{"changed", "same", "gone", "never"},
		held: map[string]string{"changed": "1", "same": "1", "gone": "1", "unasked": "1"},
	})
	c.expect(endpoints, "r1", "changed=2").without(t, "gone", "never")
}

func TestDeltaClientsAskByName(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	line := set("a=1", "b=1", "c=1")
	s.publish("r1", sets{endpoints: line})
	c := s.delta()
	c.ask(endpoints, "a", "missing")
	c.ack(c.expect(endpoints, "r1", "a=1").without(t, "missing"))

	// What was missing appears; what nobody asked for does not.
	line = line.With([]*served.Resource{res("missing", "1"), res("b", "2")}, nil)
	s.publish("r2", sets{endpoints: line})
	c.ack(c.expect(endpoints, "r2", "missing=1").without(t))

	// More names, beside an answer that is not needed.
	c.ask(endpoints, "b")
	c.ack(c.expect(endpoints, "r2", "b=2").without(t))

	// Asking again sends again.
	c.ask(endpoints, "b")
	c.ack(c.expect(endpoints, "r2", "b=2").without(t))

	// No longer wanted, no longer sent.
	c.send(ask{typeURL: endpoints, unsubscribe: []string{"a"}})
	c.quiet()
	line = line.With([]*served.Resource{res("a", "2")}, nil)
	s.publish("r3", sets{endpoints: line})
	c.quiet()

	// Wanted once more.
	c.ask(endpoints, "a")
	c.ack(c.expect(endpoints, "r3", "a=2").without(t))

	s.publish("r4", sets{endpoints: line.With(nil, []string{"a", "c"})})
	c.ack(c.expect(endpoints, "r4").without(t, "a"))
	c.quiet()
}

func TestDeltaNamesCountWhileAResponseIsUnanswered(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.publish("r1", sets{endpoints: set("a=1", "b=1")})
	c := s.delta()
	c.ask(endpoints, "a")
	first := c.expect(endpoints, "r1", "a=1")
	c.ask(endpoints, "b")
	c.quiet()
	c.ack(first)
	c.expect(endpoints, "r1", "b=1")
}

func TestADeltaAnswerMayUnsubscribe(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.publish("r1", sets{endpoints: set("a=1", "b=1")})
	c := s.delta()
	c.ask(endpoints, "a")
	first := c.expect(endpoints, "r1", "a=1")
	c.send(ask{typeURL: endpoints, nonce: first.nonce, unsubscribe: []string{"a"}, subscribe: []string{"b"}})
	c.expect(endpoints, "r1", "b=1").without(t)
}

func TestDeltaWildcardAndNames(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	line := set("a=1", "b=1")
	s.publish("r1", sets{clusters: line})
	c := s.delta()
	c.ask(clusters, "a")
	c.ack(c.expect(clusters, "r1", "a=1"))

	// The wildcard brings what the names did not.
	c.ask(clusters, "*")
	c.ack(c.expect(clusters, "r1", "b=1").without(t))

	// A name beside the wildcard, of what there is and what there is not.
	c.ask(clusters, "b", "missing")
	c.ack(c.expect(clusters, "r1", "b=1").without(t, "missing"))

	// The wildcard still covers a dropped name, and the client is told so.
	c.send(ask{typeURL: clusters, unsubscribe: []string{"b", "missing"}})
	c.ack(c.expect(clusters, "r1", "b=1").without(t, "missing"))

	// Without the wildcard the names remain.
	c.send(ask{typeURL: clusters, unsubscribe: []string{"*"}})
	c.quiet()
	line = line.With([]*served.Resource{res("a", "2"), res("b", "2"), res("c", "1")}, nil)
	s.publish("r2", sets{clusters: line})
	c.ack(c.expect(clusters, "r2", "a=2").without(t))
	c.ask(clusters, "*")
	c.ack(c.expect(clusters, "r2", "b=2", "c=1").without(t))
}

func TestDeltaEmptyFirstRequestIsTheWildcard(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	line := set("a=1", "b=1")
	s.publish("r1", sets{clusters: line})
	c := s.delta()
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1", "a=1", "b=1"))
	c.ask(clusters, "a") // continues the wildcard
	c.ack(c.expect(clusters, "r1", "a=1"))
	s.publish("r2", sets{clusters: line.With([]*served.Resource{res("c", "1")}, []string{"b"})})
	c.expect(clusters, "r2", "c=1").without(t, "b")
}

func TestDeltaResendsWhatAChangedResourceRefersTo(t *testing.T) {
	t.Parallel()
	ref := served.Ref{TypeURL: endpoints, Name: "eds"}
	s := serve(t, nil)
	eds := set("eds=1", "other=1")
	s.publish("r1", sets{clusters: served.NewSet(res("a", "1", ref)), endpoints: eds})
	c := s.delta()
	c.ask(endpoints, "eds", "other") // before the clusters, so that its turn has passed when they change
	c.ack(c.expect(endpoints, "r1", "eds=1", "other=1"))
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1", "a=1"))
	s.publish("r2", sets{clusters: served.NewSet(res("a", "2", ref)), endpoints: eds})
	c.ack(c.expect(clusters, "r2", "a=2"))
	c.ack(c.expect(endpoints, "r2", "eds=1").without(t))
	c.quiet()

	// So does a client that comes back with old versions.
	back := s.delta()
	back.send(ask{typeURL: clusters, held: map[string]string{"a": "1"}})
	back.expect(clusters, "r2", "a=2")
	back.send(ask{typeURL: endpoints, subscribe: []string{"eds", "other"}, held: map[string]string{"eds": "1", "other": "1"}})
	back.expect(endpoints, "r2", "eds=1")
}
