package authority

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store"
)

func TestRefusalsAreWrittenTogether(t *testing.T) {
	t.Parallel()
	writing, proceed := make(chan []store.Issue), make(chan struct{})
	r := newRefusals(func(_ context.Context, some []store.Issue) error {
		writing <- some
		<-proceed
		return nil
	})
	var told sync.WaitGroup
	told.Go(func() { r.add(t.Context(), store.Issue{Refusal: "first"}) })
	require.Len(t, <-writing, 1)

	gone, leave := context.WithCancel(t.Context())
	leave()
	for range maxIssues + 10 {
		r.add(gone, store.Issue{Refusal: "more"}) // nobody is held up who does not wait
	}
	proceed <- struct{}{}
	more := <-writing
	require.Len(t, more, maxIssues, "what is too much is forgotten")
	for i := range more[1:] {
		require.False(t, more[i+1].At.Before(more[i].At))
	}
	close(proceed)
	told.Wait()
	r.wait()
}
