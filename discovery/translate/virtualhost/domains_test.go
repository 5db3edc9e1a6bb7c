package virtualhost

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

func TestShortFormsOfAHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, proxyDomain string
		want              []string
	}{
		{"a.ns.svc.cluster.local", "ns.svc.cluster.local", []string{"a.ns.svc.cluster.local.", "a", "a.ns.svc", "a.ns"}},
		{"a.ns.svc.cluster.local", "other.svc.cluster.local", []string{"a.ns.svc.cluster.local.", "a.ns", "a.ns.svc"}},
		{"a.example.com", "ns.svc.cluster.local", []string{"a.example.com."}},
		{"foo.local.campus.net", "local.campus.net", []string{"foo.local.campus.net.", "foo"}},
		{"foo.local.campus.net", "remote.campus.net", []string{"foo.local.campus.net.", "foo.local", "foo.local.campus"}},
		{"foo.local.campus.net", "example.com", []string{"foo.local.campus.net."}},
		{"foo.local.campus.net", "", []string{"foo.local.campus.net."}},
		{"10.0.0.1", "ns.svc.cluster.local", nil},
	} {
		require.Equal(t, c.want, shortForms(c.host, c.proxyDomain), "%s for %s", c.host, c.proxyDomain)
	}
}

func TestAddressesAreDomainsToo(t *testing.T) {
	t.Parallel()
	domains, short := Domains(&mesh.Service{Hostname: "a.com", Addresses: []string{"10.0.0.1", "fd00::1", mesh.Unspecified}}, &mesh.Proxy{})
	require.Equal(t, []string{"a.com", "a.com.", "10.0.0.1", "[fd00::1]"}, domains)
	require.Equal(t, []string{"a.com."}, short)
}
