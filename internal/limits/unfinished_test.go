package limits_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

// unhurried is a message whose rest comes when it is told to.
type unhurried struct {
	end  <-chan struct{}
	at   []byte   // what is left of the prefix
	left int      // before it waits
	rest chan int // what comes after that
}

func newUnhurried(end <-chan struct{}, size, first int) *unhurried {
	// An unknown field, so that any message type accepts it.
	field := binary.AppendUvarint(binary.AppendUvarint(nil, 1000<<3|2), uint64(size))
	prefix := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size+len(field))), field...)
	return &unhurried{end, prefix, first, make(chan int, 1)}
}

func (u *unhurried) Read(p []byte) (int, error) {
	if len(u.at) > 0 {
		n := copy(p, u.at)
		u.at = u.at[n:]
		return n, nil
	}
	if u.left == 0 {
		select {
		case u.left = <-u.rest:
		case <-u.end:
			return 0, io.ErrUnexpectedEOF
		}
		if u.left == 0 {
			return 0, io.EOF
		}
	}
	n := min(len(p), u.left, 16<<10)
	clear(p[:n])
	u.left -= n
	return n, nil
}

// counted counts what a server reads.
type counted struct {
	net.Listener

	read *atomic.Int64
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return countedConn{conn, c.read}, err
}

type countedConn struct {
	net.Conn

	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// call sends a message over a connection of its own, from an address of this machine, and tells
// whether it was answered.
func call(t *testing.T, ctx context.Context, address, from string, body io.Reader) <-chan bool { //nolint:revive // the test comes first
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{Protocols: protocols, DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+healthv1.Health_Check_FullMethodName, body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/grpc")
	answered := make(chan bool, 1)
	go func() {
		response, err := transport.RoundTrip(request)
		if err != nil {
			answered <- false
			return
		}
		_, err = io.Copy(io.Discard, response.Body)
		answered <- err == nil && response.Trailer.Get("Grpc-Status") == "0"
		_ = response.Body.Close()
	}()
	return answered
}

// Of unfinished messages no more is read than the budget allows, and small messages pass them.
func TestHalfMessagesTakeWhatThereIsForThem(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	memory := limits.NewUnfinished(16 * mib)
	var refused atomic.Int64
	memory.Refused = func() { refused.Add(1) }
	server := rpc.NewServer(grpc.Creds(limits.BoundUnfinished(insecure.NewCredentials(), memory)))
	healthv1.RegisterHealthServer(server, waiter{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var read atomic.Int64
	served := make(chan error, 1)
	go func() { served <- server.Serve(counted{l, &read}) }()
	t.Cleanup(func() { server.Stop(); require.NoError(t, <-served) })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	address := l.Addr().String()

	all, cut := map[*unhurried]<-chan bool{}, make(chan *unhurried, 10)
	for range 10 { // of 7 MiB each, of which all but a byte comes
		one := newUnhurried(ctx.Done(), 7*mib, 7*mib-1)
		answer, called := make(chan bool, 1), call(t, ctx, address, "127.0.0.1", one)
		all[one] = answer
		go func() {
			if is := <-called; is {
				answer <- true
			} else {
				cut <- one
			}
		}()
	}
	require.Eventually(t, func() bool { return memory.Used() >= 7*mib }, time.Minute, time.Millisecond)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: string(make([]byte, 100_000))})
	require.NoError(t, err, "what is small asks nobody")

	whole := newUnhurried(ctx.Done(), 8*mib, 8*mib)
	whole.rest <- 0
	require.True(t, <-call(t, ctx, address, "127.0.0.2", whole), "another address has the other half")

	require.Eventually(t, func() bool { return refused.Load() == 9 }, time.Minute, time.Millisecond, "those that found no place")
	require.Less(t, read.Load(), int64(7*mib+8*mib+10*mib), "of each of them what came before it was asked for one")
	for range 9 {
		delete(all, <-cut)
	}
	for one, answered := range all {
		one.rest <- 1
		one.rest <- 0
		require.True(t, <-answered, "the one that had a place comes to its end")
	}
	require.Eventually(t, func() bool { return memory.Used() == 0 }, time.Minute, time.Millisecond)
}
