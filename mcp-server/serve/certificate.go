package serve

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

// certificate is what a server shows to those who connect: one of the mesh, one of files, or none.
type certificate interface {
	// grpc returns the credentials of a gRPC server, and the other options that go with them.
	grpc(*caller.Guard) (credentials.TransportCredentials, []grpc.ServerOption)
	// http wraps a socket for an HTTP server.
	http(net.Listener) net.Listener
	// run renews the certificate until the context ends.
	run(context.Context) error
}

// noCertificate is for an insecure server, which speaks plaintext.
type noCertificate struct{}

func (noCertificate) grpc(*caller.Guard) (credentials.TransportCredentials, []grpc.ServerOption) {
	return insecure.NewCredentials(), nil
}

func (noCertificate) http(l net.Listener) net.Listener { return l }
func (noCertificate) run(context.Context) error        { return nil }

// fileCertificate comes from files of the operator.
type fileCertificate struct{ *tlsfiles.ServerFiles }

func (c fileCertificate) grpc(g *caller.Guard) (credentials.TransportCredentials, []grpc.ServerOption) {
	return limits.BoundStrangers(credentials.NewTLS(c.Config("h2"))), []grpc.ServerOption{grpc.InTapHandle(g.Tap)}
}

func (c fileCertificate) http(l net.Listener) net.Listener {
	return tls.NewListener(l, c.Config("h2", "http/1.1"))
}

func (c fileCertificate) run(ctx context.Context) error { return c.Run(ctx) }

// meshCertificate is the server's as a member of the mesh, which renews it.
type meshCertificate struct{ mesh }

func (c meshCertificate) grpc(g *caller.Guard) (credentials.TransportCredentials, []grpc.ServerOption) {
	return limits.BoundStrangers(credentials.NewTLS(c.TLS("h2"))), []grpc.ServerOption{grpc.InTapHandle(g.Tap), rpc.Renewing()}
}

func (c meshCertificate) http(l net.Listener) net.Listener {
	return tls.NewListener(l, c.TLS("h2", "http/1.1"))
}

func (meshCertificate) run(context.Context) error { return nil }
