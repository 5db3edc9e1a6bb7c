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
	// grpc returns what a gRPC server shows, and what else such a server needs.
	grpc(*caller.Guard) (credentials.TransportCredentials, []grpc.ServerOption)
	// http has a socket speak as a server of HTTP does.
	http(net.Listener) net.Listener
	// run keeps the certificate new until the context ends.
	run(context.Context) error
}

// noCertificate is that of an insecure server, which speaks plaintext.
type noCertificate struct{}

func (noCertificate) grpc(*caller.Guard) (credentials.TransportCredentials, []grpc.ServerOption) {
	return insecure.NewCredentials(), nil
}

func (noCertificate) http(l net.Listener) net.Listener { return l }
func (noCertificate) run(context.Context) error        { return nil }

// fileCertificate is one that the operator brings.
type fileCertificate struct{ *tlsfiles.ServerFiles }

func (c fileCertificate) grpc(g *caller.Guard) (credentials.TransportCredentials, []grpc.ServerOption) {
	return limits.BoundStrangers(credentials.NewTLS(c.Config("h2"))), []grpc.ServerOption{grpc.InTapHandle(g.Tap)}
}

func (c fileCertificate) http(l net.Listener) net.Listener {
	return tls.NewListener(l, c.Config("h2", "http/1.1"))
}

func (c fileCertificate) run(ctx context.Context) error { return c.Run(ctx) }

// meshCertificate is the one that the server has as a member of the mesh, which keeps it new.
type meshCertificate struct{ mesh }

func (c meshCertificate) grpc(g *caller.Guard) (credentials.TransportCredentials, []grpc.ServerOption) {
	return limits.BoundStrangers(credentials.NewTLS(c.TLS("h2"))), []grpc.ServerOption{grpc.InTapHandle(g.Tap), rpc.Renewing()}
}

func (c meshCertificate) http(l net.Listener) net.Listener {
	return tls.NewListener(l, c.TLS("h2", "http/1.1"))
}

func (meshCertificate) run(context.Context) error { return nil }
