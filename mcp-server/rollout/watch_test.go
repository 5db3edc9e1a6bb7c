package rollout_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

type watching = grpc.ServerStreamingClient[adminv1.WatchRolloutsResponse]

func watch(t *testing.T, api adminv1.ProxyServiceClient, req *adminv1.WatchRolloutsRequest) watching {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	stream, err := api.WatchRollouts(ctx, req)
	require.NoError(t, err)
	return stream
}

// hears is the next message as a line.
func hears(t *testing.T, w watching) string {
	t.Helper()
	m, err := w.Recv()
	require.NoError(t, err)
	var lines []string
	for _, r := range m.GetRollouts() {
		lines = append(lines, fmt.Sprintf("%d: %d of %d", r.GetRevision(), r.GetRan(), r.GetConcerned()))
	}
	return strings.Join(lines, ", ")
}

func push(revision int64, ran, concerned uint32) *rolloutv1.Rollout {
	return &rolloutv1.Rollout{Revision: revision, After: revision - 1, Began: timestamppb.New(time.Now()), Parts: []*rolloutv1.Rollout_Part{
		{Namespace: "shop", Concerned: concerned, Ran: ran, Took: make([]uint64, ran)},
	}}
}

func TestAWatchTellsWhatDiffers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commits(2)
	d, api := s.discovery("eu"), s.api()
	require.NoError(t, d.tell(&rolloutv1.ReportRequest{Revision: 1, Rollouts: []*rolloutv1.Rollout{push(1, 1, 2), push(2, 0, 2)}}))
	both, last, others := watch(t, api, &adminv1.WatchRolloutsRequest{Limit: 5}), watch(t, api, &adminv1.WatchRolloutsRequest{}), watch(t, api, &adminv1.WatchRolloutsRequest{Namespaces: []string{"web"}})
	require.Equal(t, "1: 1 of 2, 2: 0 of 2", hears(t, both))
	require.Equal(t, "2: 0 of 2", hears(t, last))
	require.NoError(t, d.tell(&rolloutv1.ReportRequest{Revision: 1, Rollouts: []*rolloutv1.Rollout{push(1, 2, 2)}}))
	require.Equal(t, "1: 2 of 2", hears(t, both))
	require.NoError(t, d.tell(&rolloutv1.ReportRequest{Revision: 1, Rollouts: []*rolloutv1.Rollout{push(2, 1, 2)}}))
	require.Equal(t, "2: 1 of 2", hears(t, both))
	require.Equal(t, "2: 1 of 2", hears(t, last), "and nothing of what was before")
	_, err := s.conn.Exec(t.Context(), "DELETE FROM mesh.virtual_services WHERE name = 'vs-0'")
	require.NoError(t, err)
	require.Equal(t, "3: 0 of 0", hears(t, both), "also where nobody reports it")
	require.Equal(t, "3: 0 of 0", hears(t, last))
	require.NoError(t, d.tell(&rolloutv1.ReportRequest{Revision: 3, Rollouts: []*rolloutv1.Rollout{push(2, 2, 2), push(3, 2, 2)}}))
	require.Equal(t, "2: 2 of 2, 3: 2 of 2", hears(t, both))
	require.NoError(t, d.tell(&rolloutv1.ReportRequest{Revision: 3, Rollouts: []*rolloutv1.Rollout{{Revision: 4, After: 3}, push(3, 2, 3)}}))
	require.Equal(t, "3: 2 of 3", hears(t, both))

	d.leave()
	require.Equal(t, "3: 2 of 3", hears(t, both), "who has not answered is away")
	s.stop()
	for _, w := range []watching{both, last, others} {
		var err error
		for err == nil {
			_, err = w.Recv()
		}
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "the server is shutting down")
	}
}

func TestWatchesAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commits(1)
	api := s.api()
	for range 64 {
		require.Equal(t, "1: 0 of 0", hears(t, watch(t, api, &adminv1.WatchRolloutsRequest{})))
	}
	_, err := watch(t, api, &adminv1.WatchRolloutsRequest{}).Recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "64 callers watch rollouts at this server, which is as many as may")
}
