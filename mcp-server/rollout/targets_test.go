package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

func TestScrapeTargetsAreMachinesWithAgents(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commits(2)
	cart, bare, six := proxy(1, "cart"), proxy(2, "bare"), proxy(3, "six")
	cart.Description.Agent, six.Description.Agent = "1.0.0", "1.0.0"
	cart.Description.Locality, cart.Description.Network = "eu/eu-1a/rack-7", "blue"
	cart.Description.Labels["topology.istio.io/network"] = "blue"
	six.Description.Addresses, six.Description.Labels = []string{"fd00::1", "10.0.0.9"}, nil
	require.NoError(t, s.discovery("eu").tell(&rolloutv1.ReportRequest{Revision: 2, Proxies: []*rolloutv1.Proxy{cart, bare, six}}))

	list := func(r *adminv1.ListScrapeTargetsRequest) []*adminv1.ScrapeTarget {
		resp, err := s.api().ListScrapeTargets(t.Context(), r)
		require.NoError(t, err)
		return resp.GetTargets()
	}
	all := list(&adminv1.ListScrapeTargetsRequest{})
	require.Len(t, all, 2, "one without an agent has no page of metrics")
	require.Equal(t, []string{"10.0.0.1:15026"}, all[0].GetTargets())
	require.Equal(t, map[string]string{
		"namespace": "shop", "proxy": "cart", "role": "sidecar", "service_account": "default", "network": "blue", "region": "eu", "zone": "eu-1a",
		"discovery": "eu", "workload": "cart", "__meta_pgmesh_label_app": "cart", "__meta_pgmesh_label_topology_istio_io_network": "blue",
	}, all[0].GetLabels())
	require.Equal(t, []string{"[fd00::1]:15026"}, all[1].GetTargets())
	require.Equal(t, map[string]string{
		"namespace": "shop", "proxy": "six", "role": "sidecar", "service_account": "default", "discovery": "eu", "workload": "six",
	}, all[1].GetLabels())

	require.Equal(t, "10.0.0.1:9090", list(&adminv1.ListScrapeTargetsRequest{Port: 9090, Namespaces: []string{"shop"}})[0].GetTargets()[0])
	require.Empty(t, list(&adminv1.ListScrapeTargetsRequest{Namespaces: []string{"bank"}}))
	_, err := s.api().ListScrapeTargets(t.Context(), &adminv1.ListScrapeTargetsRequest{Port: 70000})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}
