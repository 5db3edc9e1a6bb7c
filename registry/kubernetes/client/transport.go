package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/pgmesh/pgmesh/registry/kubernetes/kubeconfig"
)

const (
	connectWithin = 5 * time.Second
	// keepAlive finds a host that has vanished while nothing is sent.
	keepAlive = 10 * time.Second
	idleFor   = time.Minute
	// plainConnections are those of a server without TLS, which is a proxy on this machine: each
	// question that waits has one.
	plainConnections = 1000
)

// NewTransport makes connections. Over TLS all questions share one, which is asked whether it is
// still alive when nothing has come for a while: one that hangs is noticed within twice the patience.
func NewTransport(access func() *kubeconfig.Access, patience time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: connectWithin, KeepAlive: keepAlive}
	return &http.Transport{
		DialContext: dialer.DialContext, DisableCompression: true, ForceAttemptHTTP2: true,
		MaxIdleConns: plainConnections, MaxIdleConnsPerHost: plainConnections, IdleConnTimeout: idleFor,
		HTTP2: &http.HTTP2Config{SendPingTimeout: patience, PingTimeout: patience},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			config := access().TLS()
			config.NextProtos = []string{"h2", "http/1.1"}
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
		},
	}
}
