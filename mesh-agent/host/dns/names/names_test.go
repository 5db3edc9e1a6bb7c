package names_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/names"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

func table(hosts map[string]string) *ndsv1.NameTable {
	t := &ndsv1.NameTable{Table: map[string]*ndsv1.NameTable_NameInfo{}}
	for host, ip := range hosts {
		t.Table[host] = &ndsv1.NameTable_NameInfo{Ips: []string{ip}}
	}
	return t
}

func TestFind(t *testing.T) {
	t.Parallel()
	x := names.New(table(map[string]string{
		"reviews.shop.svc.cluster.local": "10.0.0.1",
		"cart.other.svc.cluster.local":   "10.0.0.2",
		"API.example.com":                "10.0.0.3",
		"*.example.com":                  "10.0.0.4",
		"*.deep.example.com":             "10.0.0.5",
		"single":                         "10.0.0.6",
		"*.corp.example":                 "10.0.0.7",
	}), names.Options{Domain: "shop.svc.cluster.local", Search: []string{"lan.", "corp.example"}})
	for asked, want := range map[string]struct{ host, target string }{
		"reviews.shop.svc.cluster.local":         {host: "reviews.shop.svc.cluster.local"},
		"ReViews.shop.svc.CLUSTER.local.":        {host: "reviews.shop.svc.cluster.local"},
		"reviews":                                {host: "reviews.shop.svc.cluster.local"},
		"reviews.shop":                           {host: "reviews.shop.svc.cluster.local"},
		"reviews.shop.svc":                       {host: "reviews.shop.svc.cluster.local"},
		"cart.other":                             {host: "cart.other.svc.cluster.local"},
		"cart":                                   {}, // another namespace's
		"api.example.com":                        {host: "api.example.com"},
		"www.example.com":                        {host: "*.example.com"},
		"a.b.example.com":                        {host: "*.example.com"},
		"a.deep.example.com":                     {host: "*.deep.example.com"},
		"example.com":                            {},
		"com":                                    {},
		".":                                      {},
		"":                                       {},
		"api.example.com.shop.svc.cluster.local": {host: "api.example.com", target: "api.example.com"},
		"api.example.com.svc.cluster.local":      {host: "api.example.com", target: "api.example.com"},
		"api.example.com.lan":                    {host: "api.example.com", target: "api.example.com"},
		"api.example.com.corp.example":           {host: "api.example.com", target: "api.example.com"}, // before the wildcard
		"www.example.com.lan":                    {host: "*.example.com", target: "www.example.com"},
		"reviews.shop.svc.cluster.local.lan":     {host: "reviews.shop.svc.cluster.local", target: "reviews.shop.svc.cluster.local"},
		"single":                                 {host: "single"},
		"single.lan":                             {}, // a machine there, not ours
		"reviews.lan":                            {},
		"unknown.shop.svc.cluster.local":         {},
	} {
		found, ok := x.Find(asked)
		require.Equal(t, want.host != "", ok, asked)
		if ok {
			require.Equal(t, want.host, found.Name, asked)
			require.Equal(t, want.target, found.Target, asked)
			require.NotEmpty(t, found.Why)
		}
	}
	require.Equal(t, 7, x.Len())
}

func TestFindInADomainOfAnotherForm(t *testing.T) {
	t.Parallel()
	x := names.New(table(map[string]string{"reviews.mesh": "10.0.0.1", "x.y.mesh": "10.0.0.2"}), names.Options{Domain: "mesh"})
	found, ok := x.Find("reviews")
	require.True(t, ok)
	require.Equal(t, "reviews.mesh", found.Name)
	_, ok = x.Find("x.y")
	require.True(t, ok)
}

func TestInvalidHostsAreLeftOut(t *testing.T) {
	t.Parallel()
	x := names.New(table(map[string]string{
		"good.example": "::ffff:10.0.0.1", "bad.example": "10.0.0.0/8", "a..b": "10.0.0.1", "*": "10.0.0.1", "a.*.b": "10.0.0.1", "two words.example": "10.0.0.1",
	}), names.Options{})
	require.Equal(t, []string{"good.example"}, x.Hosts())
	require.Equal(t, []string{"*", "a.*.b", "a..b", "bad.example", "two words.example"}, x.LeftOut())
	found, _ := x.Find("good.example")
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.1")}, found.IPv4, "an IPv4 address, however it is written")
}

func TestExceptedNamesAreNotFound(t *testing.T) {
	t.Parallel()
	x := names.New(table(map[string]string{"*.example.com": "10.0.0.1", "discovery.example.com": "10.0.0.2"}), names.Options{Except: []string{"Discovery.example.com"}})
	_, ok := x.Find("discovery.example.com")
	require.False(t, ok)
	_, ok = x.Find("other.example.com")
	require.True(t, ok)
}

func TestEmptyIndex(t *testing.T) {
	t.Parallel()
	_, ok := names.New(nil, names.Options{Domain: "shop.svc.cluster.local"}).Find("reviews")
	require.False(t, ok)
}

func TestReverse(t *testing.T) {
	t.Parallel()
	x := names.New(table(map[string]string{"b.example": "240.240.0.9", "a.example": "240.240.0.9", "six.example": "2001:2::f0f0:9", "real.example": "192.0.2.1"}), names.Options{})
	for asked, want := range map[string]string{
		"9.0.240.240.in-addr.arpa.": "a.example",
		"9.0.0.0.0.f.0.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.2.ip6.arpa.": "six.example",
		"1.2.0.192.in-addr.arpa": "", // not a name of the mesh
		"9.240.240.in-addr.arpa": "",
		"x.ip6.arpa":             "",
		"a.example":              "",
	} {
		ip, ok := names.Address(asked)
		name := ""
		if ok {
			name, _ = x.Reverse(ip)
		}
		require.Equal(t, want, name, asked)
	}
	_, ok := names.Address("0.9.0.0.0.0.f.0.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.2.ip6.arpa")
	require.False(t, ok, "too many nibbles")
}

func TestServiceNames(t *testing.T) {
	t.Parallel()
	port, transport, host, ok := names.Service("_HTTP._tcp.reviews.shop.")
	require.True(t, ok)
	require.Equal(t, []string{"http", "tcp", "reviews.shop"}, []string{port, transport, host})
	for _, other := range []string{"reviews.shop", "_http.reviews", "_http._sctp.reviews", "http._tcp.reviews", "_http._tcp", ""} {
		_, _, _, ok := names.Service(other)
		require.False(t, ok, other)
	}
	h := names.Host{Ports: []names.Port{{80, "http", false}, {53, "dns", true}, {53, "dns", false}}}
	require.Equal(t, []names.Port{{53, "dns", true}}, h.Served("dns", "udp"))
	require.Empty(t, h.Served("http", "udp"))
}
