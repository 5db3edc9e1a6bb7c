package tree_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/registry/zookeeper/client"
	"github.com/pgmesh/pgmesh/registry/zookeeper/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// old is a ZooKeeper before 3.6 with one instance: it ends the session of whoever asks for what it
// does not know.
func old(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { defer conn.Close(); serveOld(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); running.Wait() })
	return listener.Addr().String()
}

func serveOld(conn net.Conn) {
	take(conn)
	_, _ = conn.Write(packet(int32(0), int32(4000), int64(7), strings.Repeat("x", 16)))
	for request := take(conn); len(request) >= 8; request = take(conn) {
		xid, operation := int32(binary.BigEndian.Uint32(request)), binary.BigEndian.Uint32(request[4:])
		answer := []any{xid, int64(1), int32(0)}
		path := strings.TrimRight(string(request[min(12, len(request)):]), "\x00\x01") // a flag follows it
		switch {
		case operation == 9: // sync
			answer = append(answer, "")
		case operation == 8 && path == "/services":
			answer = append(answer, int32(1), "web")
		case operation == 8:
			answer = append(answer, int32(1), "id")
		case operation == 4:
			answer = append(answer, "content of "+path)
		case operation == 106: // a watch for all
			_, _ = conn.Write(packet(xid, int64(1), int32(-6)))
			return
		}
		_, _ = conn.Write(packet(answer...))
	}
}

func take(conn io.Reader) []byte {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, _ = io.ReadFull(conn, body)
	return body
}

func packet(parts ...any) []byte {
	var body []byte
	for _, part := range parts {
		switch v := part.(type) {
		case int32:
			body = binary.BigEndian.AppendUint32(body, uint32(v))
		case int64:
			body = binary.BigEndian.AppendUint64(body, uint64(v))
		case string:
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(v))), v...)
		}
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// listener keeps what it is told.
type listener struct {
	t     *testing.T
	told  []tree.Leaf
	whole chan struct{}
}

func (l *listener) Told(leaves []tree.Leaf) { l.told = append(l.told, leaves...) }
func (l *listener) Whole()                  { close(l.whole) }
func (l *listener) Away(err error)          { l.t.Errorf("it is away: %v", err) }

// An old ZooKeeper is read with a watch for each node, without being away for a moment.
func TestAnOldZooKeeper(t *testing.T) {
	t.Parallel()
	tr := &tree.Tree{
		Shape: tree.Shape{Lists: 2, Contents: true}, Root: "/services",
		Client: client.Settings{Servers: []string{old(t)}, Patience: 5 * time.Second, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}},
	}
	l := &listener{t: t, whole: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tr.Run(ctx, l) }()
	<-l.whole
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, []tree.Leaf{{Path: "web/id", Content: []byte("content of /services/web/id")}}, l.told)
}
