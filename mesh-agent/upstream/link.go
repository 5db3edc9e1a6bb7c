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

	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/mesh-agent/ownmark"
)

const (
	// A replica that vanished without a word is noticed by what is asked of it after so long a silence, and not answered in time. Discovery
	// allows to be asked every 10 s, and counts what comes a little earlier.
	askAfter     = 12 * time.Second
	answerWithin = 5 * time.Second

	// most is what one message may have: lists of all clusters of a large mesh.
	most = 1 << 30
)

// errGone is of a connection that takes no call any more. The call was not sent.
var errGone = errors.New("this connection to discovery takes no new calls")

// link is one connection to one replica, which is made once: gRPC would make it again by itself, and to none other.
type link struct {
	target target
	name   string // what the discovery is called by its certificate

	conn   *grpc.ClientConn
	lost   chan struct{} // closed when it takes no new calls
	closed chan struct{} // closed when nothing goes over it any more
	dated  <-chan struct{}
	forget context.CancelFunc // ends what dated comes from

	old     bool // its certificate is not the newest; the upstream's lock guards it
	retired bool // to end soon; as well

	mu     sync.Mutex
	dialed bool
	dial   error     // why there was nobody
	secure bool      // there was a handshake of TLS
	verify error     // why whoever was there is not spoken to
	broke  error     // what ended it
	heard  time.Time // when something came last
	once   sync.Once
}

// window is how much may be on its way before it is read. One that gRPC adapts would cost discovery the answer to a ping for every change.
const window = 1 << 20

// open connects to a replica. The error says in plain words why that could not be.
func open(ctx context.Context, at target, c *Credentials) (*link, error) {
	watched, forget := context.WithCancel(context.Background())
	l := &link{target: at, lost: make(chan struct{}), closed: make(chan struct{}), forget: forget, dated: c.dated(watched)}
	var err error
	l.conn, err = grpc.NewClient("passthrough:///"+at.address,
		grpc.WithTransportCredentials(&handshake{c.transport(l.judge), l}),
		grpc.WithContextDialer(l.dialOnce),
		grpc.WithAuthority(at.said),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: askAfter, Timeout: answerWithin, PermitWithoutStream: true}),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: attemptWithin}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most), grpc.MaxCallSendMsgSize(most)),
	)
	if err != nil {
		forget()
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

// watch waits for the end.
func (l *link) watch() {
	l.conn.WaitForStateChange(context.Background(), connectivity.Ready)
	close(l.lost)
	<-l.closed
	l.close()
}

// close ends what goes over it. It may be called more than once.
func (l *link) close() {
	l.forget()
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

// retire ends it after a while. The lock of the upstream is held.
func (l *link) retire(after time.Duration) {
	l.retired = true
	time.AfterFunc(after, l.close)
}

// judge takes down what is wrong with who was found.
func (l *link) judge(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verify = err
}

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
		l.dial = err
	}
	return conn, err
}

// handshake takes down who was found, and sees when the connection ends.
type handshake struct {
	credentials.TransportCredentials

	link *link
}

// ClientHandshake makes the connection secure, if it is to be.
func (h *handshake) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		h.link.mu.Lock()
		defer h.link.mu.Unlock()
		h.link.broke = err
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
	_, h.link.secure = info.(credentials.TLSInfo)
	return &observed{conn, h.link}, info, nil
}

// Clone returns the same: a link is connected once.
func (h *handshake) Clone() credentials.TransportCredentials { return h }

// observed is the connection as gRPC reads it.
type observed struct {
	net.Conn

	link *link
}

// Read takes down why nothing comes any more.
func (o *observed) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	switch {
	case err == nil:
		o.link.heard = time.Now()
	case o.link.broke == nil && !errors.Is(err, net.ErrClosed):
		o.link.broke = err
	}
	return n, err
}

// Close is the end.
func (o *observed) Close() error {
	o.link.once.Do(func() { close(o.link.closed) })
	return o.Conn.Close()
}

// transport is how connections are made with credentials.
func (c *Credentials) transport(judge func(error)) credentials.TransportCredentials {
	if c == nil {
		return insecure.NewCredentials()
	}
	config := c.TLS.Clone()
	verify := config.VerifyConnection
	config.VerifyConnection = judged(verify, judge)
	return credentials.NewTLS(config)
}
