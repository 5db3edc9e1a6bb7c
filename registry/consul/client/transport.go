package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
)

const (
	connectWithin = 5 * time.Second
	// keepAlive finds a host that has vanished while nothing is sent.
	keepAlive = 10 * time.Second
	idleFor   = time.Minute
)

// NewTransport makes connections, with TLS if there are files for it. Each question that waits has a
// connection, or over TLS, where Consul speaks HTTP/2, a stream. It keeps open what is used at a time.
func NewTransport(files *tlsfiles.ClientFiles, connections int) *http.Transport {
	dialer := &net.Dialer{Timeout: connectWithin, KeepAlive: keepAlive}
	t := &http.Transport{
		DialContext: dialer.DialContext, DisableCompression: true,
		MaxConnsPerHost: connections, MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: idleFor,
	}
	if files != nil {
		t.ForceAttemptHTTP2 = true
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			config := files.Config()
			config.NextProtos = []string{"h2", "http/1.1"}
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
		}
	}
	return t
}
