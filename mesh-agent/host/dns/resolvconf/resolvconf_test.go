package resolvconf_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/resolvconf"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got := resolvconf.Parse([]byte(`# made by hand
; nameserver 192.0.2.9
domain first.example
nameserver 192.0.2.1   # the office's
nameserver	fe80::1%eth0
nameserver 192.0.2.1
nameserver somewhere
search a.example b.example
options ndots:2 rotate
options edns0
nameserver`))
	require.Equal(t, resolvconf.Config{
		Servers: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1%eth0")},
		Search:  []string{"a.example", "b.example"},
		Options: []string{"ndots:2", "rotate", "edns0"},
	}, got)
	require.Empty(t, resolvconf.Parse(nil))
}

func TestStub(t *testing.T) {
	t.Parallel()
	require.True(t, resolvconf.Stub(netip.MustParseAddr("127.0.0.53")))
	require.False(t, resolvconf.Stub(netip.MustParseAddr("127.0.0.1")))
}
