package ads_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

const question = "test/question"

// asked starts a server that tells who asks which names they gave.
func asked(t *testing.T) *server {
	t.Helper()
	s := serve(t, nil)
	s.ads.Ask(ads.Questions{
		Are: func(typeURL string) bool { return typeURL == question },
		Reply: func(_ context.Context, _ string, names []string) (ads.Reply, error) {
			if len(names) == 0 {
				return ads.Reply{}, status.Error(codes.NotFound, "say of whom")
			}
			return ads.Reply{Identifier: "me", Resources: []*served.Resource{res("names", strings.Join(names, ","))}}, nil
		},
	})
	s.publish("r1", sets{clusters: set("a=1")})
	return s
}

func TestWhoAsksAboutTheServerIsNoClient(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := asked(t)
		c := connect(s)
		c.send(ask{typeURL: question, nonce: "a time of day", names: []string{"x"}, subscribe: []string{"x"}})
		first := c.expect(question, "", "names=x")
		require.Equal(t, "me", first.identifier)
		c.ack(first, "x")
		c.ask(question, "y")
		require.NotEqual(t, first.nonce, c.expect(question, "", "names=y").nonce, "the acknowledgement has no reply")
		require.Empty(t, s.ads.Streams())

		ordinary := connect(s)
		ordinary.ask(clusters)
		require.Equal(t, "test", ordinary.expect(clusters, "r1", "a=1").identifier)
		require.Len(t, s.ads.Streams(), 1)
		c.cancel()
		ordinary.cancel()
		s.heard.await(t, "closed "+nodeID)
		require.Len(t, s.heard.all(), 3, "opened, sent, closed: %v", s.heard.all())
	})
}

func TestAStreamOfQuestionsIsServedNothingElse(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		c := connect(asked(t))
		c.ask(question, "x")
		c.expect(question, "", "names=x")
		c.ask(clusters)
		_, err := c.form.recv()
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	})
}

func TestAQuestionWithoutAnAnswerEndsTheStream(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		c := connect(asked(t))
		c.ask(question)
		_, err := c.form.recv()
		require.Equal(t, status.Error(codes.NotFound, "say of whom").Error(), err.Error())
	})
}

func TestShutdownEndsStreamsOfQuestions(t *testing.T) {
	t.Parallel()
	s := asked(t)
	c := s.sotw()
	c.ask(question, "x")
	c.expect(question, "", "names=x")
	s.ads.Shutdown()
	_, err := c.form.recv()
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
}

func TestQuestionsAreAnsweredAtAPace(t *testing.T) {
	t.Parallel()
	s := asked(t)
	all := []*client{s.sotw(), s.delta()} // they share it
	began := time.Now()
	for n := range 23 {
		c := all[n%2]
		c.ask(question, "x")
		c.expect(question, "", "names=x")
	}
	require.GreaterOrEqual(t, time.Since(began), 3*time.Second/5, "20 at once, and then 5 a second")
}
