package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// source is one of the VirtualServices that commits writes.
func source(name string) *rolloutv1.Resource {
	return &rolloutv1.Resource{ApiGroup: "networking.istio.io", Kind: "VirtualService", Namespace: "shop", Name: name}
}

func ref(name string) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: "networking.istio.io", Kind: "VirtualService", Namespace: "shop", Name: name}
}

// refusing is a proxy that refuses what was made from vs-0.
func refusing(stream uint64, sent, runs int64, since time.Time) *rolloutv1.Proxy {
	return &rolloutv1.Proxy{Stream: stream, State: rolloutv1.Proxy_STATE_REFUSED, Sent: sent, Runs: runs, Refused: 1, Refusals: []*rolloutv1.Refusal{{
		TypeUrl: "type.googleapis.com/envoy.config.listener.v3.Listener", Resource: "0.0.0.0_80", Reason: "no such filter", Since: timestamppb.New(since),
		Sources: []*rolloutv1.Source{{ApiGroup: "networking.istio.io", Kind: "VirtualService", Namespace: "shop", Name: "vs-0", Path: "spec.http[0]"}},
	}}}
}

func TestListsTellWhatIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commits(2)
	d, api, at := s.discovery("eu"), s.api(), time.Now().Add(-time.Second).Truncate(time.Microsecond)
	ends := at.Add(time.Hour)
	pay := proxy(2, "pay")
	pay.Description.CertificateEnds = timestamppb.New(ends)
	require.NoError(t, d.tell(&rolloutv1.ReportRequest{
		Revision: 2, Proxies: []*rolloutv1.Proxy{proxy(1, "cart"), pay},
		Audiences: []*rolloutv1.Audience{{Resource: source("vs-0"), Everyone: true}, {Resource: source("vs-1"), Circles: []uint32{7}}},
		Times:     &rolloutv1.Times{Streams: []uint64{2}, Took: []uint64{1500}},
		Problems:  &rolloutv1.Problems{Problems: []*rolloutv1.Problem{{Resource: source("vs-1"), Path: "spec", Code: "left-out", Message: "it is in the way"}}},
		Rollouts: []*rolloutv1.Rollout{{Revision: 2, After: 1, Began: timestamppb.New(at), Parts: []*rolloutv1.Rollout_Part{
			{Namespace: "shop", Concerned: 2, Ran: 1, Refused: 1, Took: []uint64{1500}}, {Namespace: "web", Concerned: 1},
		}}},
	}))
	require.NoError(t, d.tell(&rolloutv1.ReportRequest{Revision: 2, Proxies: []*rolloutv1.Proxy{refusing(1, 2, 1, at)}}))

	proxies, err := api.ListProxies(t.Context(), &adminv1.ListProxiesRequest{Proxy: "pay"})
	require.NoError(t, err)
	require.Equal(t, 1500*time.Microsecond, proxies.GetProxies()[0].GetTook().AsDuration())
	require.True(t, ends.Equal(proxies.GetProxies()[0].GetCertificateEndsAt().AsTime()))

	refusals, err := api.ListRefusals(t.Context(), &adminv1.ListRefusalsRequest{})
	require.NoError(t, err)
	require.Len(t, refusals.GetRefusals(), 1)
	r := refusals.GetRefusals()[0]
	require.Equal(t, []any{"shop", "cart", "eu", "0.0.0.0_80", "no such filter", int64(1), at.UnixMicro()},
		[]any{r.GetNamespace(), r.GetProxy(), r.GetDiscovery(), r.GetEnvoyResource(), r.GetReason(), r.GetRevision(), r.GetSince().AsTime().UnixMicro()})
	require.Equal(t, []string{ref("vs-0").String(), ref("vs-0").String(), "spec.http[0]"}, []string{r.GetResource().String(), r.GetSources()[0].String(), r.GetPath()})
	refusals, err = api.ListRefusals(t.Context(), &adminv1.ListRefusalsRequest{Proxy: "pay"})
	require.NoError(t, err)
	require.Empty(t, refusals.GetRefusals())

	rollouts, err := api.ListRollouts(t.Context(), &adminv1.ListRolloutsRequest{})
	require.NoError(t, err)
	require.Len(t, rollouts.GetRollouts(), 2)
	newest := rollouts.GetRollouts()[0]
	require.Equal(t, []any{int64(2), uint32(3), uint32(1), uint32(1), uint32(1), uint32(0), 0}, []any{newest.GetRevision(), newest.GetConcerned(), newest.GetRan(), newest.GetRefused(), newest.GetToAnswer(), newest.GetAway(), len(newest.GetParts())})
	require.True(t, at.Add(1500*time.Microsecond).Equal(newest.GetHalfAt().AsTime()))
	require.Zero(t, rollouts.GetRollouts()[1].GetConcerned())
	rollouts, err = api.ListRollouts(t.Context(), &adminv1.ListRolloutsRequest{Revision: 2, Namespaces: []string{"shop"}})
	require.NoError(t, err)
	require.Equal(t, []uint32{2, 1}, []uint32{rollouts.GetRollouts()[0].GetConcerned(), uint32(len(rollouts.GetRollouts()[0].GetParts()))})

	statuses, err := api.ListStatus(t.Context(), &adminv1.ListStatusRequest{Kinds: []string{"vs"}})
	require.NoError(t, err)
	require.Len(t, statuses.GetStatuses(), 2)
	first := statuses.GetStatuses()[0]
	require.Equal(t, []any{ref("vs-0").String(), int64(1), uint32(2), uint32(1), uint32(1)},
		[]any{first.GetResource().String(), first.GetObservedRevision(), first.GetConcerned(), first.GetRunning(), first.GetRefusing()})
	conditions := map[string]string{}
	for _, c := range statuses.GetStatuses()[1].GetConditions() {
		require.NotNil(t, c.GetLastTransitionAt())
		conditions[c.GetType()] = c.GetStatus() + " " + c.GetReason() + " " + c.GetMessage()
	}
	require.Equal(t, map[string]string{
		"Accepted": "True Accepted ", "ResolvedRefs": "True ResolvedRefs ", "Programmed": "Unknown NoProxies it concerns no proxy that is connected",
		"Conflicted": "True LeftOut spec: it is in the way; " +
			`spec.hosts[0]: the host "a.example" has another owner for the mesh: VirtualService shop/vs-0`,
	}, conditions)

	runners, err := api.ListRunners(t.Context(), &adminv1.ListRunnersRequest{Resource: &adminv1.ResourceRef{Kind: "vs", Namespace: "shop", Name: "vs-0"}})
	require.NoError(t, err)
	require.Equal(t, int64(1), runners.GetRevision())
	require.Len(t, runners.GetRunners(), 2)
	require.Equal(t, []any{"cart", false, "pay", true}, []any{runners.GetRunners()[0].GetProxy().GetProxy(), runners.GetRunners()[0].GetRuns(), runners.GetRunners()[1].GetProxy().GetProxy(), runners.GetRunners()[1].GetRuns()})
}

func TestListsRefuseWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	s := serve(t)
	api := s.api()
	rollouts := func(r *adminv1.ListRolloutsRequest) error {
		_, err := api.ListRollouts(t.Context(), r)
		return err
	}
	runners := func(r *adminv1.ResourceRef) error {
		_, err := api.ListRunners(t.Context(), &adminv1.ListRunnersRequest{Resource: r})
		return err
	}
	_, unknown := api.ListStatus(t.Context(), &adminv1.ListStatusRequest{Kinds: []string{"vs", "virtualservce"}})
	watching, err := api.WatchRollouts(t.Context(), &adminv1.WatchRolloutsRequest{Limit: 1001})
	require.NoError(t, err)
	_, watched := watching.Recv()
	for _, test := range []struct {
		err  error
		code codes.Code
		says string
	}{
		{rollouts(&adminv1.ListRolloutsRequest{Revision: 1}), codes.OutOfRange, "there is no revision 1 yet: the newest is 0"},
		{rollouts(&adminv1.ListRolloutsRequest{Revision: -1}), codes.InvalidArgument, "revision: must not be negative"},
		{rollouts(&adminv1.ListRolloutsRequest{Limit: -1}), codes.InvalidArgument, "limit: -1 is no number of rollouts"},
		{watched, codes.InvalidArgument, "limit: 1001 is no number of rollouts to list: give one up to 1000"},
		{unknown, codes.InvalidArgument, `kinds[1]: unknown kind "virtualservce"`},
		{runners(nil), codes.InvalidArgument, `resource: unknown kind ""`},
		{runners(&adminv1.ResourceRef{Group: "x", Kind: "VirtualService"}), codes.InvalidArgument, `unknown kind "VirtualService" of group "x"`},
		{runners(&adminv1.ResourceRef{Kind: "vs", Namespace: "shop", Name: "none\x00"}), codes.NotFound, "there is no VirtualService shop/none"},
	} {
		require.Equal(t, test.code, status.Code(test.err), test.says)
		require.ErrorContains(t, test.err, test.says)
	}
}

// A wait that ends in a refusal says which resource is to blame.
func TestAWaitSaysWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commits(1)
	d, api := s.discovery("eu"), s.api()
	d.told(1, proxy(1, "cart"))
	d.told(1, refusing(1, 1, 0, time.Now()))
	stream, err := api.WaitUntilRun(t.Context(), &adminv1.WaitUntilRunRequest{Timeout: durationpb.New(0)})
	require.NoError(t, err)
	m, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, m.GetBehind(), 1)
	require.Regexp(t, `^refuses 0.0.0.0_80: no such filter; it was made from VirtualService shop/vs-0, spec.http.0., which \S+ changed in revision 1$`, m.GetBehind()[0].GetReason())
}
