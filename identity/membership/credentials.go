package membership

import (
	"context"
	"crypto/x509"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// Credentials is Client for gRPC. A connection is closed when its certificate is replaced;
// otherwise gRPC would keep using it after the server starts to refuse its calls because that
// certificate has ended or is no longer trusted.
func (m *Membership) Credentials(accept Accept) credentials.TransportCredentials {
	return &current{credentials.NewTLS(m.Client(accept)), m}
}

type current struct {
	credentials.TransportCredentials

	member *Membership
}

// ClientHandshake opens a connection that is closed when there is a newer certificate.
func (c *current) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	before := c.member.Current()
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	made := &boundConn{Conn: conn, closed: make(chan struct{})}
	go made.watch(c.member, before)
	return made, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c *current) Clone() credentials.TransportCredentials {
	return &current{c.TransportCredentials.Clone(), c.member}
}

// boundConn is a connection that is closed once its certificate is not the newest.
type boundConn struct {
	net.Conn

	once   sync.Once
	closed chan struct{}
}

// Close closes the connection and ends its watch.
func (d *boundConn) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

// watch closes the connection once the membership has another certificate than s. It returns when
// the connection is closed.
func (d *boundConn) watch(m *Membership, s *State) {
	shown := s.Certificate.Leaf
	for sameCertificate(s.Certificate.Leaf, shown) {
		select {
		case <-s.Replaced():
			s = m.Current()
		case <-d.closed:
			return
		}
	}
	_ = d.Close() // the user of the connection notices at the next read
}

func sameCertificate(a, b *x509.Certificate) bool { return a == b || a.Equal(b) }
