package ads_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Asked may offer a snapshot that has what the client asks for, and the client is answered from
// that.
func TestWhatIsAskedForMayBeOfferedBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	var s *server
	s = serve(t, func(cfg *ads.Config) {
		cfg.Asked = func(stream *ads.Stream, typeURL string, names []string, held map[string]string) {
			s.heard.addf("asked %s %v %v", typeURL, names, held)
			if typeURL == endpoints {
				stream.Subscriber().Offer(&served.Snapshot{Revision: "r1", Sets: sets{endpoints: set("asked=1", "old=1")}})
			}
		}
	})
	s.publish("r1", sets{clusters: set("c=1")})
	c := s.delta()
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1", "c=1"))
	c.send(ask{typeURL: endpoints, subscribe: []string{"old"}, held: map[string]string{"old": "1"}})
	c.ack(c.expect(clusters, "r1").without(t, "c"))
	c.ack(c.expect(endpoints, "r1").without(t))
	c.send(ask{typeURL: endpoints, subscribe: []string{"asked"}})
	c.ack(c.expect(endpoints, "r1", "asked=1").without(t))
	c.quiet()
	s.heard.await(t, "asked test/Cluster [] map[]")
	s.heard.await(t, "asked test/Endpoints [old] map[old:1]")
	s.heard.await(t, "asked test/Endpoints [asked] map[]")
}
