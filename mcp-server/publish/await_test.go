package publish_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

// waiting waits, in the background, until something is served, and returns how that ends.
func waiting(ctx context.Context, p *publish.Publisher) func() (err error, ended bool) {
	end := make(chan error, 1)
	go func() { end <- p.Await(ctx) }()
	return func() (error, bool) {
		synctest.Wait()
		select {
		case err := <-end:
			return err, true
		default:
			return nil, false
		}
	}
}

func TestClientsWaitUntilThereIsSomethingToServe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := publish.New(prometheus.NewRegistry())
		outcome := waiting(t.Context(), p)
		_, ended := outcome()
		require.False(t, ended, "the source is being read")
		p.Replace(content(), publish.Position{Revision: 1})
		err, ended := outcome()
		require.True(t, ended)
		require.NoError(t, err)
		p.Lost(errors.New("away"))
		require.NoError(t, p.Await(t.Context()), "what it has it goes on serving")
	})
}

func TestClientsAreSentElsewhereByAServerThatHasNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := publish.New(prometheus.NewRegistry())
		outcome := waiting(t.Context(), p)
		p.Lost(errors.New("cannot connect to db.internal as admin"))
		err, ended := outcome()
		require.True(t, ended)
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.NotContains(t, err.Error(), "db.internal")
		require.ErrorIs(t, p.Await(t.Context()), publish.ErrNothing)
		p.Replace(content(), publish.Position{Revision: 1})
		require.NoError(t, p.Await(t.Context()))
	})
}

func TestClientsWaitForWhatWasSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := publish.New(prometheus.NewRegistry())
		p.Prime(&publish.State{Mesh: "m", AsOf: time.Now()})
		outcome := waiting(t.Context(), p)
		p.Lost(errors.New("away"))
		_, ended := outcome()
		require.False(t, ended)
		require.True(t, p.Resume())
		err, ended := outcome()
		require.True(t, ended)
		require.NoError(t, err)
	})
}

func TestAClientThatLeavesDoesNotWait(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	require.Equal(t, codes.Canceled, status.Code(publish.New(prometheus.NewRegistry()).Await(ctx)))
}
