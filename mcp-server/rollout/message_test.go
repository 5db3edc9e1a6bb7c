package rollout_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

func pushed(p *rolloutv1.Rollout_Part) *rolloutv1.ReportRequest {
	return &rolloutv1.ReportRequest{Rollouts: []*rolloutv1.Rollout{{Revision: 1, Parts: []*rolloutv1.Rollout_Part{p}}}}
}

// Whatever is in a message is bounded, and what makes no sense is refused with what is wrong.
func TestThereIsOnlySoMuchInAMessage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	refusal := &rolloutv1.Refusal{Sources: make([]*rolloutv1.Source, 51)}
	for says, m := range map[string]*rolloutv1.ReportRequest{
		"rollouts: there are 201, of at most 200":                                                {Rollouts: make([]*rolloutv1.Rollout, 201)},
		"audiences: there are 5001, of at most 5000":                                             {Audiences: make([]*rolloutv1.Audience, 5001)},
		"problems: there are 1001, of at most 1000":                                              {Problems: &rolloutv1.Problems{Problems: make([]*rolloutv1.Problem, 1001)}},
		"times: there are 100001, of at most 100000":                                             {Times: &rolloutv1.Times{Streams: make([]uint64, 100001)}},
		"proxies.refusals: there are 21, of at most 20":                                          {Proxies: []*rolloutv1.Proxy{{Refusals: make([]*rolloutv1.Refusal, 21)}}},
		"proxies.refusals.sources: there are 51, of at most 50":                                  {Proxies: []*rolloutv1.Proxy{{Refusals: []*rolloutv1.Refusal{refusal}}}},
		"rollouts.parts: there are 10001, of at most 10000":                                      {Rollouts: []*rolloutv1.Rollout{{Parts: make([]*rolloutv1.Rollout_Part, 10001)}}},
		"rollouts.parts.took: there are 33, of at most 32":                                       pushed(&rolloutv1.Rollout_Part{Concerned: 40, Ran: 40, Took: make([]uint64, 33)}),
		"audiences.circles: there are 100001, of at most 100000":                                 {Audiences: []*rolloutv1.Audience{{Circles: make([]uint32, 100001)}}},
		"there are more times than proxies that ran it":                                          pushed(&rolloutv1.Rollout_Part{Concerned: 2, Ran: 2, Took: []uint64{2, 1}}),
		"more proxies have answered than it concerns":                                            pushed(&rolloutv1.Rollout_Part{Concerned: 1, Ran: 1, Away: 1}),
		"there is not one time for each stream":                                                  {Times: &rolloutv1.Times{Took: []uint64{1}}},
		"revision -3 after 0 is there twice, or is none":                                         {Rollouts: []*rolloutv1.Rollout{{Revision: -3}}},
		"revision 2 after 9 is there twice, or is none":                                          {Rollouts: []*rolloutv1.Rollout{{Revision: 2, After: 9}}},
		"stream 9 was not described (describe a proxy in the first message that has its stream)": {Proxies: []*rolloutv1.Proxy{{Stream: 9, State: rolloutv1.Proxy_STATE_REFUSED, Refusals: []*rolloutv1.Refusal{{}}}}},
	} {
		err := s.discovery("eu").tell(m)
		require.Equal(t, codes.InvalidArgument, status.Code(err), says)
		require.ErrorContains(t, err, says)
	}
	for _, table := range []string{"report_rollouts", "report_audiences", "report_problems", "report_times", "reported_proxies"} {
		require.Equal(t, []int64{0}, list[int64](s, "SELECT count(*) FROM mesh_internal."+table), table)
	}
}

// Texts and times that nobody can store do not keep a discovery from reporting.
func TestOddTextsAndTimesAreTaken(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commits(1)
	long, never := strings.Repeat("ö\x00", 1<<15), &timestamppb.Timestamp{Seconds: math.MaxInt64, Nanos: -5}
	of := &rolloutv1.Resource{ApiGroup: long, Kind: long, Namespace: long, Name: long}
	odd := proxy(1, "vm-1")
	odd.State, odd.Sent, odd.Runs, odd.Circle, odd.Refused = rolloutv1.Proxy_STATE_REFUSED, 1, math.MaxInt64, math.MaxUint32, math.MaxUint32
	odd.Description.CertificateEnds, odd.Description.Connected = never, never
	odd.Refusals = []*rolloutv1.Refusal{{TypeUrl: long, Resource: long, Reason: long, Since: never, Sources: []*rolloutv1.Source{{ApiGroup: long, Kind: long, Namespace: long, Name: long, Path: long}, nil}}, nil}
	require.NoError(t, s.discovery("eu").tell(&rolloutv1.ReportRequest{
		Revision: 1, Proxies: []*rolloutv1.Proxy{odd},
		Rollouts: []*rolloutv1.Rollout{{Revision: math.MaxInt64, After: 5, Began: never}, {Revision: 1, Began: never, Parts: []*rolloutv1.Rollout_Part{
			{Namespace: long, Concerned: math.MaxUint32, Ran: math.MaxUint32, Took: []uint64{0, math.MaxUint64}}, {Namespace: "shop", Concerned: math.MaxUint32},
		}}},
		Problems:  &rolloutv1.Problems{Problems: []*rolloutv1.Problem{{Resource: of, Path: long, Code: long, Message: long}, nil}},
		Audiences: []*rolloutv1.Audience{{Resource: of, Circles: []uint32{math.MaxUint32}}, nil},
		Times:     &rolloutv1.Times{Streams: []uint64{1, math.MaxUint64}, Took: []uint64{math.MaxUint64, 5}},
	}))
	require.Equal(t, []string{"240:00:00"}, list[string](s, "SELECT took::text FROM mesh.proxies"), "no time is longer")
	require.Equal(t, []int64{2 * math.MaxUint32}, list[int64](s, "SELECT concerned FROM mesh.rollouts WHERE last_at > now() + interval '9 days'"))
	require.Equal(t, []int64{2}, list[int64](s, "SELECT count(*) FROM mesh.refusals"))
	require.Equal(t, []int64{1}, list[int64](s, "SELECT count(conditions) FROM mesh.resource_status"))
	require.Empty(t, list[string](s, "SELECT message FROM mesh.problems"))
	require.Equal(t, []time.Time{}, append([]time.Time{}, list[time.Time](s, "SELECT certificate_ends FROM mesh.proxies WHERE certificate_ends > '9999-12-31'")...))
}
