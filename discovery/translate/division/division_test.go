package division_test

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/translate/division"
)

func TestWhetherRoutesAreDividedFollowsFromTheirName(t *testing.T) {
	t.Parallel()
	host := &routev3.VirtualHost{Name: "a.mesh:80", Domains: []string{"*"}}
	for _, name := range []string{"80", "http_proxy", "unix:///run/a.sock", "http.8080", "https.443.https.gate.edge"} {
		d := division.ByHost(&routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{host}})
		require.NotNil(t, d.Configuration.GetVhds(), name)
		require.Len(t, d.Hosts, 1)
		require.Equal(t, name+"/a.mesh:80", d.Hosts[0].GetName())

		none := division.ByHost(&routev3.RouteConfiguration{Name: name})
		require.Equal(t, []string{"*"}, none.Hosts[0].GetDomains(), "a listener would wait for ever for the hosts of %s", name)
		require.Empty(t, none.Hosts[0].GetRoutes())
	}
	single := division.ByHost(&routev3.RouteConfiguration{Name: "a.mesh:8080", VirtualHosts: []*routev3.VirtualHost{host}})
	require.Nil(t, single.Configuration.GetVhds())
	require.Len(t, single.Configuration.GetVirtualHosts(), 1)
	require.Empty(t, single.Hosts)
}

func TestTheNameOfAHostHasNoSlash(t *testing.T) {
	t.Parallel()
	d := division.ByHost(&routev3.RouteConfiguration{Name: "80", VirtualHosts: []*routev3.VirtualHost{{Name: "team/a", Domains: []string{"a"}}}})
	require.Equal(t, "80/team%2Fa", d.Hosts[0].GetName())
}
