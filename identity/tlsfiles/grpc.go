package tlsfiles

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
)

// Credentials returns the files as gRPC credentials.
func (f *ClientFiles) Credentials() credentials.TransportCredentials {
	return &reloading{credentials.NewTLS(f.Config()), f}
}

// reloading uses the newest files for each connection.
type reloading struct {
	credentials.TransportCredentials

	files *ClientFiles
}

func (r *reloading) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(r.files.Config()).ClientHandshake(ctx, authority, conn)
}

func (r *reloading) Clone() credentials.TransportCredentials { return r.files.Credentials() }
