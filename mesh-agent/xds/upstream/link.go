package upstream

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/internal/kit/version"
	"github.com/pgmesh/pgmesh/mesh-agent/host/ownmark"
)

const (
	// Keepalive notices a replica that vanished without closing the connection. Discovery accepts a
	// ping every 10 s and counts those that come a little earlier, so 12 s is safe.
	keepaliveInterval = 12 * time.Second
	keepaliveTimeout  = 5 * time.Second

	// maxMessageSize fits a list of all clusters of a large mesh.
	maxMessageSize = 1 << 30
)

// errGone refuses to dial again. The call was not sent.
var errGone = errors.New("this connection to discovery takes no new calls")

// link is one connection to one replica. It is dialed once, because gRPC would only ever redial the
// same replica.
type link struct {
	target target
	name   string // the discovery's name in its certificate

	conn         *grpc.ClientConn
	lost         chan struct{} // closed when it takes no new calls
	closed       chan struct{} // closed when the socket is closed
	outdated     <-chan struct{}
	stopWatching context.CancelFunc // ends the wait behind outdated

	stale   bool // it shows an old certificate; guarded by Upstream.mu
	retired bool // it closes after drainTime; guarded by Upstream.mu

	mu        sync.Mutex
	dialed    bool
	dialErr   error     // why the dial failed
	isTLS     bool      // the TLS handshake succeeded
	verifyErr error     // why the server is not trusted
	endErr    error     // what ended the connection
	lastRead  time.Time // when the last data arrived
	once      sync.Once
}

// flowControlWindow bounds the data sent ahead of the reader. A window that gRPC adapts would cost
// discovery a ping answer for each change.
const flowControlWindow = 1 << 20

// open connects to a replica. The error says in plain words why that failed.
func open(ctx context.Context, to target, c *Credentials) (*link, error) {
	watched, stop := context.WithCancel(context.Background())
	l := &link{target: to, lost: make(chan struct{}), closed: make(chan struct{}), stopWatching: stop, outdated: c.outdated(watched)}
	var err error
	l.conn, err = grpc.NewClient("passthrough:///"+to.address,
		grpc.WithTransportCredentials(&handshake{c.transport(l.recordVerifyErr), l}),
		grpc.WithContextDialer(l.dialOnce),
		grpc.WithAuthority(to.configured),
		grpc.WithUserAgent(version.UserAgent("mesh-agent")),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveInterval, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithStaticStreamWindowSize(flowControlWindow), grpc.WithStaticConnWindowSize(flowControlWindow),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageSize), grpc.MaxCallSendMsgSize(maxMessageSize)),
	)
	if err != nil {
		stop()
		return nil, err
	}
	l.conn.Connect()
	for s := l.conn.GetState(); s != connectivity.Ready; s = l.conn.GetState() {
		if s == connectivity.TransientFailure || !l.conn.WaitForStateChange(ctx, s) {
			err := l.explain(ctx)
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// watch closes lost when the connection takes no new calls, and closes the connection when its
// socket is gone.
func (l *link) watch() {
	l.conn.WaitForStateChange(context.Background(), connectivity.Ready)
	close(l.lost)
	<-l.closed
	l.close()
}

// close ends the connection and all calls on it. It may be called more than once.
func (l *link) close() {
	l.stopWatching()
	_ = l.conn.Close()
}

func (l *link) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// retire closes the link after a while. The caller holds Upstream.mu.
func (l *link) retire(after time.Duration) {
	l.retired = true
	time.AfterFunc(after, l.close)
}

// recordVerifyErr records the result of verifying the server.
func (l *link) recordVerifyErr(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verifyErr = err
}

// dialOnce dials the first time and refuses after that.
func (l *link) dialOnce(ctx context.Context, address string) (net.Conn, error) {
	l.mu.Lock()
	again := l.dialed
	l.dialed = true
	l.mu.Unlock()
	if again {
		return nil, errGone
	}
	conn, err := (&net.Dialer{Control: ownmark.Control}).DialContext(ctx, "tcp", address)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dialErr = err
	}
	return conn, err
}

// handshake records the server's name and errors of the handshake, and wraps the connection.
type handshake struct {
	credentials.TransportCredentials

	link *link
}

// ClientHandshake runs the TLS handshake, or none for plaintext.
func (h *handshake) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		h.link.mu.Lock()
		defer h.link.mu.Unlock()
		h.link.endErr = err
		return nil, nil, err
	}
	if shown, ok := info.(credentials.TLSInfo); ok && len(shown.State.PeerCertificates) > 0 {
		if id, err := identity.Of(shown.State.PeerCertificates[0]); err == nil {
			server, _ := identity.ServerOf(id)
			h.link.name = server.Name
		}
	}
	h.link.mu.Lock()
	defer h.link.mu.Unlock()
	_, h.link.isTLS = info.(credentials.TLSInfo)
	return &observedConn{conn, h.link}, info, nil
}

// Clone returns the same credentials, as a link connects once.
func (h *handshake) Clone() credentials.TransportCredentials { return h }

// observedConn records what gRPC reads from the connection.
type observedConn struct {
	net.Conn

	link *link
}

// Read records when data arrived, and the first error other than our own close.
func (o *observedConn) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	switch {
	case err == nil:
		o.link.lastRead = time.Now()
	case o.link.endErr == nil && !errors.Is(err, net.ErrClosed):
		o.link.endErr = err
	}
	return n, err
}

// Close closes link.closed.
func (o *observedConn) Close() error {
	o.link.once.Do(func() { close(o.link.closed) })
	return o.Conn.Close()
}

// transport returns gRPC credentials that report each verification.
func (c *Credentials) transport(judge func(error)) credentials.TransportCredentials {
	if c == Insecure {
		return insecure.NewCredentials()
	}
	config := c.TLS.Clone()
	verify := config.VerifyConnection
	config.VerifyConnection = reportVerify(verify, judge)
	return credentials.NewTLS(config)
}
