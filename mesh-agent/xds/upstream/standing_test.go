package upstream_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// What was refused comes again at once when the machine is a member again, on the same connection.
func TestARestoredMachineTriesAgain(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	r := serve(t, grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, answer grpc.UnaryHandler) (any, error) {
		if revoked.Load() {
			return nil, refusal.NewRevoked(&identityv1.Revocation{Enrolment: "e-1"}, "e-1 is no member of the mesh any more")
		}
		return answer(ctx, request)
	}))
	u := dial(t, upstream.Options{Addresses: []string{r.address}, Credentials: upstream.Insecure})
	awaitStatus(t, u, connected)
	ask := func() error {
		_, err := healthv1.NewHealthClient(u).Check(t.Context(), &healthv1.HealthCheckRequest{})
		return err
	}
	again := func(retry <-chan struct{}) bool {
		select {
		case <-retry:
			return true
		default:
			return false
		}
	}

	retry := u.Retry()
	require.NoError(t, ask())
	revoked.Store(true)
	require.Error(t, ask())
	require.Error(t, ask())
	require.False(t, again(retry), "nothing has changed for the better")
	require.NotNil(t, u.Revoked())
	revoked.Store(false)
	require.NoError(t, ask())
	require.True(t, again(retry))
	require.Nil(t, u.Revoked())
	retry = u.Retry()
	require.NoError(t, ask())
	require.False(t, again(retry), "it is told once")
}
