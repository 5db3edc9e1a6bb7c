package node

import (
	"net"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// serveNames is the cluster's resolver, without which a search through the domains of a cluster does
// not come to its end. It knows no names: those of the cluster are answered by the agents of the mesh.
func (n *Node) serveNames(t testing.TB) {
	t.Helper()
	socket, err := net.ListenPacket("udp", net.JoinHostPort(n.Address.String(), "53"))
	require.NoError(t, err)
	server := &dns.Server{PacketConn: socket, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(question, dns.RcodeNameError))
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ActivateAndServe() // until the socket is closed
	}()
	t.Cleanup(func() {
		_ = socket.Close()
		<-ended
	})
}
