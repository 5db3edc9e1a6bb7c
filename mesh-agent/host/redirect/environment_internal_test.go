package redirect

import (
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/sockets"
)

func TestSSHPortsFromConfiguration(t *testing.T) {
	t.Parallel()
	require.Equal(t, []uint16{2222, 2200, 2201}, configuredPorts([]byte(`
# Port 22
Port 2222
  port=2200
ListenAddress 0.0.0.0
ListenAddress [::1]:2201
PermitRootLogin no
`)))
	require.Equal(t, []uint16{2022, 2023}, configuredPorts([]byte("[Socket]\nListenStream=\nListenStream=0.0.0.0:2022\nListenStream = 2023\nAccept=no\n")))
}

func TestNameservers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(file, []byte("# nameserver 9.9.9.9\nsearch mesh\nnameserver 10.0.0.53\nnameserver fe80::1%eth0\nnameserver 10.0.0.53\nnameserver nonsense\n"), 0o600))
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.53"), netip.MustParseAddr("fe80::1")}, Nameservers(file))
	require.Empty(t, Nameservers(file+"-not-there"))
}

func TestPorts(t *testing.T) {
	t.Parallel()
	all, err := ParsePorts([]string{"80", "70-79", "443", "8000-8100", "8050"})
	require.NoError(t, err)
	require.Equal(t, "70-80, 443, 8000-8100", all.String())
	require.Equal(t, "70-74, 76-80, 8000-8010", all.Without(PortsOf(75, 443).Plus(Ports{{8011, 9000}})).String())
	require.Equal(t, "443, 8100", all.And(Ports{{100, 500}, {8100, 8200}}).String())
	require.Empty(t, all.Without(AllPorts))
	require.Equal(t, "1-21, 23-65535", AllPorts.Without(PortsOf(22)).String())
	require.Equal(t, "1-65534", AllPorts.Without(PortsOf(65535)).String())
}

func TestReadListeners(t *testing.T) {
	t.Parallel()
	l, err := readListeners([]byte(`{"listener_statuses":[
		{"name":"virtualOutbound","local_address":{"socket_address":{"address":"0.0.0.0","port_value":15101}},"additional_local_addresses":[{"socket_address":{"address":"::","port_value":15101}}]},
		{"name":"virtualInbound","local_address":{"socket_address":{"address":"0.0.0.0","port_value":15106}}},
		{"name":"socket","local_address":{"pipe":{"path":"/run/x"}}}]}`))
	require.NoError(t, err)
	require.Equal(t, Listeners{OutboundTo: 15101, InboundTo: 15106, IPv4: true, IPv6: true}, l)
	_, err = readListeners([]byte(`{"listener_statuses":[{"name":"0.0.0.0_80"}]}`))
	require.ErrorContains(t, err, "does not listen for redirected connections yet")
	_, err = readListeners([]byte("no JSON"))
	require.Error(t, err)

	ports, err := readServices([]byte(`{"configs":[{"active_state":{"listener":{"filter_chains":[
		{"name":"virtualInbound-blackhole","filter_chain_match":{"destination_port":15006}},
		{"name":"virtualInbound"},
		{"name":"0.0.0.0_8080","filter_chain_match":{"destination_port":8080}},{"name":"0.0.0.0_8080","filter_chain_match":{"destination_port":8080}},
		{"name":"0.0.0.0_9000","filter_chain_match":{"destination_port":9000}}]}}}]}`))
	require.NoError(t, err)
	require.Equal(t, PortsOf(8080, 9000), ports)
}

// An agent that is not root recognizes SSH by its greeting.
func TestSSHGreeting(t *testing.T) {
	t.Parallel()
	greeting := func(words string) netip.AddrPort {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				io.WriteString(conn, words)
				defer conn.Close()
			}
		}()
		return netip.MustParseAddrPort(l.Addr().String())
	}
	secure, mail, silent := greeting("SSH-2.0-OpenSSH_9.2\r\n"), greeting("220 mail ESMTP\r\n"), greeting("")
	require.True(t, speaksSSH(secure))
	require.False(t, speaksSSH(mail))
	require.False(t, speaksSSH(silent))

	var s SSH
	all := []sockets.Socket{
		{Local: secure, Listening: true, Inode: 1},
		{Local: secure, Listening: true, UID: 1000, Inode: 2},
		{Local: mail, Listening: true, Inode: 3},
	}
	require.Equal(t, map[sockets.Inode]bool{1: true, 3: false}, s.probe(all))
	all[0].Local = mail // sockets are not probed twice
	require.Equal(t, map[sockets.Inode]bool{1: true}, s.probe(all[:1]))
}
