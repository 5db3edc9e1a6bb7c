package rollout

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Who waits is woken by a report, but looks no sooner than the database may be asked again.
func TestNewsEndARest(t *testing.T) {
	t.Parallel()
	s := &Service{news: newNews(), done: make(chan struct{})}
	come, never := s.news.come(), time.Now().Add(time.Hour)
	require.True(t, s.news.since().IsZero())
	before := time.Now()
	s.news.tell()
	require.False(t, s.news.since().Before(before))
	require.NoError(t, s.rest(t.Context(), time.Now(), never, come))
	require.NoError(t, s.rest(t.Context(), never, time.Now(), s.news.come()), "without news it looks as well")

	ending, end := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.rest(ending, never, never, come) }()
	end()
	require.Equal(t, codes.Canceled, status.Code(<-over), "the news is no reason to look at once")
	close(s.done)
	require.Equal(t, codes.Unavailable, status.Code(s.rest(t.Context(), never, never, come)))
}
