package admit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/internal/limits"
)

// client is the other end of a connection, as far as the handshake shows.
type client struct {
	credentials.TLSInfo

	by     *trust.State  // what it was judged by; nil if that was not known yet
	member *trust.Member // nil if it is not a member
	err    error         // why it is not
}

// ended reports whether a member's certificate has expired since.
func (c *client) ended() bool {
	return c != nil && c.member != nil && !time.Now().Before(c.member.NotAfter)
}

// Presented is the certificate chain that the client of a call has shown, whose key it has proved
// to have; nil if it has shown none.
func Presented(ctx context.Context) []*x509.Certificate {
	if c := clientOf(ctx); c != nil {
		return c.State.PeerCertificates
	}
	return nil
}

func clientOf(ctx context.Context) *client {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	c, _ := p.AuthInfo.(*client)
	return c
}

// Member returns who makes a call, by what the mesh trusts now. All its errors are of type
// [trust.RefusedError].
func Member(ctx context.Context, state *trust.State) (*trust.Member, error) {
	c := clientOf(ctx)
	if c == nil {
		return state.Judge(nil)
	}
	if c.member != nil && state.SameAuthorities(c.by) && time.Now().Before(c.member.NotAfter) {
		return c.member, state.Standing(c.member)
	}
	return state.Judge(c.State.PeerCertificates)
}

// Machine is like Member, and refuses members that are not machines.
func Machine(ctx context.Context, state *trust.State) (*trust.Member, error) {
	m, err := Member(ctx, state)
	if err != nil {
		return m, err
	}
	return m, m.RequireMachine()
}

// Credentials returns those of a listener. Clients may connect without a valid certificate; a call
// is judged when it is made.
func (d *Door) Credentials(config *tls.Config) credentials.TransportCredentials {
	return &entrance{limits.BoundStrangers(credentials.NewTLS(config)), d.trust}
}

type entrance struct {
	credentials.TransportCredentials

	trust func() *trust.State
}

// ServerHandshake finds out who connects.
func (e *entrance) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := e.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	t, ok := info.(credentials.TLSInfo)
	if !ok {
		return nil, nil, errors.Join(errors.New("the connection is not one of TLS"), conn.Close())
	}
	c := &client{TLSInfo: t, by: e.trust()}
	if c.by != nil {
		c.member, c.err = c.by.Judge(t.State.PeerCertificates)
	}
	if c.member == nil || c.err != nil {
		c.member = nil
	} else {
		limits.Vouch(conn.RemoteAddr())
		conn = closedAt(conn, c.member.NotAfter.Add(farewell))
	}
	return conn, c, nil
}

// Clone implements gRPC's interface.
func (e *entrance) Clone() credentials.TransportCredentials {
	return &entrance{e.TransportCredentials.Clone(), e.trust}
}
