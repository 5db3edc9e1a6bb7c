package sockets

import (
	"maps"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadTable(t *testing.T) {
	t.Parallel()
	text := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0 100 0 0 10 0
   1: 00000000000000000000000001000000:0016 00000000000000000000000001000000:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 777 1 0
   2: 0100007F:1F90 0100007F:9C41 06 00000000:00000000 03:000015D2 00000000     0        0 0 3 0
nonsense
`
	require.Equal(t, []Socket{
		{Local: netip.MustParseAddrPort("127.0.0.1:8080"), Remote: netip.MustParseAddrPort("0.0.0.0:0"), Listening: true, Inode: 12345},
		{Local: netip.MustParseAddrPort("[::1]:22"), Remote: netip.MustParseAddrPort("[::1]:40000"), UID: 1000, Inode: 777},
	}, readTable(text))
}

// Netlink and the tables agree on listeners and on both ends of connections.
func TestSocketsOfThisProcess(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil && address == "[::1]:0" {
			continue // a machine without IPv6
		}
		require.NoError(t, err)
		defer listener.Close()
		client, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		defer client.Close()
		server, err := listener.Accept()
		require.NoError(t, err)
		defer server.Close()

		at := func(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }
		uid := uint32(os.Geteuid())
		want := map[Socket]bool{
			{Local: at(listener.Addr()), Listening: true, UID: uid}:                    true,
			{Local: at(server.LocalAddr()), Remote: at(server.RemoteAddr()), UID: uid}: true,
			{Local: at(client.LocalAddr()), Remote: at(client.RemoteAddr()), UID: uid}: true,
		}
		for name, list := range map[string]func() ([]Socket, error){"TCP": TCP, "netlink": ask, "the tables": readTables} {
			// The kernel may leave one out while others come and go.
			require.Eventually(t, func() bool {
				all, err := list()
				require.NoError(t, err)
				own := Of(os.Getpid())
				found := map[Socket]bool{}
				for _, s := range all {
					mine := own[s.Inode]
					s.Inode = 0
					if s.Listening {
						s.Remote = netip.AddrPort{}
					}
					if s.Local == at(listener.Addr()) || s.Local == at(client.LocalAddr()) {
						found[s] = mine
					}
				}
				return maps.Equal(want, found)
			}, 10*time.Second, time.Millisecond, name)
		}
	}
}
