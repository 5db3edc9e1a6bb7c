package authority

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store/identity/members"
)

func TestRefusalsAreWrittenInBatches(t *testing.T) {
	t.Parallel()
	writing, proceed := make(chan []members.Issue), make(chan struct{})
	r := newRefusalQueue(func(_ context.Context, some []members.Issue) error {
		writing <- some
		<-proceed
		return nil
	})
	var adding sync.WaitGroup
	adding.Go(func() { r.add(t.Context(), members.Issue{Refusal: "first"}) })
	require.Len(t, <-writing, 1)

	gone, leave := context.WithCancel(t.Context())
	leave()
	for range maxIssues + 10 {
		r.add(gone, members.Issue{Refusal: "more"}) // the context has ended, so add does not wait
	}
	proceed <- struct{}{}
	more := <-writing
	require.Len(t, more, maxIssues, "refusals beyond the limit are dropped")
	for i := range more[1:] {
		require.False(t, more[i+1].At.Before(more[i].At))
	}
	close(proceed)
	adding.Wait()
	r.wait()
}
