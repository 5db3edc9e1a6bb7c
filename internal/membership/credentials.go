package membership

import (
	"context"
	"crypto/x509"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// Credentials are Client as gRPC takes it. A connection lasts as long as the certificate that it was made with: gRPC would go on with it when
// the server turns all its calls away, because that certificate has ended or is not trusted any more.
func (m *Membership) Credentials(accept Accept) credentials.TransportCredentials {
	return &current{credentials.NewTLS(m.Client(accept)), m}
}

type current struct {
	credentials.TransportCredentials

	member *Membership
}

// ClientHandshake makes a connection that ends when there is a newer certificate.
func (c *current) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	before := c.member.Current()
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	made := &dated{Conn: conn, closed: make(chan struct{})}
	go made.outlast(c.member, before)
	return made, info, nil
}

// Clone returns another of them.
func (c *current) Clone() credentials.TransportCredentials {
	return &current{c.TransportCredentials.Clone(), c.member}
}

// dated is a connection that is closed when its certificate is not the newest any more.
type dated struct {
	net.Conn

	once   sync.Once
	closed chan struct{}
}

// Close ends the connection.
func (d *dated) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

// outlast waits for a certificate other than that of a state, or for the end of the connection.
func (d *dated) outlast(m *Membership, s *State) {
	shown := s.Certificate.Leaf
	for sameCertificate(s.Certificate.Leaf, shown) {
		select {
		case <-s.Replaced():
			s = m.Current()
		case <-d.closed:
			return
		}
	}
	_ = d.Close() // whoever uses it is told by the next read
}

func sameCertificate(a, b *x509.Certificate) bool { return a == b || a.Equal(b) }
