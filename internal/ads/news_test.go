package ads_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// listener records the news of messages and answers.
type listener struct {
	*recorder

	mu       sync.Mutex
	sent     []*served.News
	answered []*served.News
}

func (l *listener) Sent(s *ads.Stream, m ads.Message) {
	l.mu.Lock()
	l.sent = append(l.sent, m.News)
	l.mu.Unlock()
	l.recorder.Sent(s, m)
}

func (l *listener) Acked(s *ads.Stream, v ads.Verdict) {
	l.mu.Lock()
	l.answered = append(l.answered, v.News)
	l.mu.Unlock()
	l.recorder.Acked(s, v)
}

// told lists the news of each response by name; "" for none.
func reported(l *listener, names map[*served.News]string, of *[]*served.News) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range *of {
		all = append(all, names[n])
	}
	return all
}

// The first snapshot for a client is no news. Of several that come while the client is busy, the
// oldest counts.
func TestAnAnswerIsAboutTheOldestNewsThatWaited(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		heard := &listener{recorder: newRecorder()}
		one := served.NewSubscriber(nil)
		s := serve(t, func(c *ads.Config) {
			c.Observer = heard
			c.Open = func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) { return one, nil }
			c.Plan = ads.Plan{Stages: []ads.Stage{{Types: []string{clusters}}}}
			c.Patience = time.Hour
		})
		names := map[*served.News]string{}
		offer := func(revision string, more ...string) {
			n := &served.News{Arrived: time.Now()}
			names[n] = revision
			one.OfferNews(&served.Snapshot{Revision: revision, Sets: sets{clusters: set(append(more, "a="+revision)...), listeners: set("l=1")}}, n)
		}
		offer("r1")
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "a=r1"))
		c.quiet()

		offer("r2")
		second := c.expect(clusters, "r2", "a=r2")
		offer("r3")
		offer("r4")
		c.quiet() // whose answer is that of another type while the change is under way, and so about it
		c.ack(second)
		c.ack(c.expect(clusters, "r4", "a=r4"))
		c.quiet()
		c.ask(listeners)
		c.ack(c.expect(listeners, "r4", "l=1"))
		c.quiet()
		require.Equal(t, []string{"", "r2", "r3", ""}, reported(heard, names, &heard.answered), "what is asked for later is no part of a change")
		require.Equal(t, []string{"", "", "r2", "r2", "r3", "", "", ""}, reported(heard, names, &heard.sent))
	})
}
