package client_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/registry/zookeeper/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 200 * time.Millisecond

// serve answers one connection after the other by a function.
func serve(t testing.TB, deal func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			deal(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-ended })
	return listener.Addr().String()
}

func settings(address string) client.Settings {
	return client.Settings{
		Servers: []string{address}, Patience: patience, Happened: func(client.Event) {},
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
	}
}

// packet has a length before its parts.
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

// take reads a packet without its length, or nothing if there are no more.
func take(conn io.Reader) []byte {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil
	}
	return body
}

var greeting = packet(int32(0), int32(4000), int64(77), strings.Repeat("x", 16))

// greeted serves connections that have a session.
func greeted(t testing.TB, deal func(net.Conn)) string {
	t.Helper()
	return serve(t, func(conn net.Conn) {
		if take(conn) != nil {
			_, _ = conn.Write(greeting)
			deal(conn)
		}
	})
}

func TestServersThatGiveNoSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer []byte
		hangs  bool
		want   string
	}{
		"it ends the connection":  {nil, false, "gives no session: it has no leader, wants TLS"},
		"it is a web server":      {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false, "is no ZooKeeper, or it wants TLS"},
		"it says a huge length":   {[]byte{0x7f, 0xff, 0xff, 0xff}, false, "is no ZooKeeper, or it wants TLS"},
		"it hangs":                {nil, true, "did not answer within 200ms"},
		"it hangs in its answer":  {greeting[:7], true, "did not answer within 200ms"},
		"it ends in its answer":   {greeting[:7], false, "gives no session"},
		"its answer is too short": {packet(int32(0)), false, "ends too early"},
		"the session is over":     {packet(int32(0), int32(0), int64(0), strings.Repeat("\x00", 16)), false, "gives no session"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, func(conn net.Conn) {
				take(conn)
				_, _ = conn.Write(c.answer)
				if c.hangs {
					take(conn)
				}
			})
			_, err := client.Dial(t.Context(), settings(address))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, address)
		})
	}
}

// xidOf is the number of a request.
func xidOf(request []byte) int32 { return int32(binary.BigEndian.Uint32(request)) }

const (
	closes = int32(0)
	pings  = int32(-2)
)

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(xid int32) []byte
		want   string
	}{
		"nothing":                  {func(int32) []byte { return nil }, "ZooKeeper has ended the connection"},
		"half a packet":            {func(xid int32) []byte { return packet(xid, int64(1), int32(0), int32(5))[:18] }, "ZooKeeper has ended the connection"},
		"an answer to another":     {func(xid int32) []byte { return packet(xid+1, int64(1), int32(0), int32(0)) }, "an answer to what was not asked"},
		"too little":               {func(xid int32) []byte { return packet(xid) }, "ends too early"},
		"a length below nothing":   {func(int32) []byte { return []byte{0xff, 0xff, 0xff, 0xf0} }, "ends too early"},
		"a list that is not true":  {func(xid int32) []byte { return packet(xid, int64(1), int32(0), int32(1<<30)) }, "ends too early"},
		"a name that is not true":  {func(xid int32) []byte { return packet(xid, int64(1), int32(0), int32(1), int32(1<<30)) }, "ends too early"},
		"a list below nothing":     {func(xid int32) []byte { return packet(xid, int64(1), int32(0), int32(-7)) }, "ends too early"},
		"the end of the session":   {func(xid int32) []byte { return packet(xid, int64(1), int32(-112)) }, "the session has ended"},
		"a code that is not known": {func(xid int32) []byte { return packet(xid, int64(1), int32(-4711)) }, "ZooKeeper's code -4711"},
		"half an event":            {func(int32) []byte { return packet(int32(-1), int64(1), int32(0), int32(3)) }, "ends too early"},
		"wrong credentials":        {func(int32) []byte { return packet(int32(-4), int64(1), int32(-115)) }, "the credentials in digest-file are refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := client.Dial(t.Context(), settings(greeted(t, func(conn net.Conn) {
				_, _ = conn.Write(c.answer(xidOf(take(conn))))
			})))
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Children(t.Context(), []string{"/services"}, false)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, err, conn.Why())
		})
	}
}

func TestSilenceIsNoticed(t *testing.T) {
	t.Parallel()
	conn, err := client.Dial(t.Context(), settings(greeted(t, func(conn net.Conn) {
		for take(conn) != nil { //nolint:revive // it says nothing
		}
	})))
	require.NoError(t, err)
	defer conn.Close()
	require.EqualError(t, conn.Why(), "ZooKeeper did not answer within 200ms")
}

// A follower that has lost its leader answers pings, and no sync.
func TestAServerThatAnswersOnlyPingsIsNoticed(t *testing.T) {
	t.Parallel()
	s := settings(greeted(t, func(conn net.Conn) {
		for request := take(conn); request != nil; request = take(conn) {
			if xidOf(request) == pings {
				_, _ = conn.Write(packet(pings, int64(1), int32(0)))
			}
		}
	}))
	s.Patience = time.Second
	conn, err := client.Dial(t.Context(), s)
	require.NoError(t, err)
	defer conn.Close()
	require.EqualError(t, conn.Sync(t.Context(), "/services"), "ZooKeeper did not answer within 1s, though it answers pings")
}

// An answer that is too large costs only itself.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", client.MostBytes)
	asked := 0
	s := settings(greeted(t, func(conn net.Conn) {
		for request := take(conn); request != nil; request = take(conn) {
			switch xid := xidOf(request); xid {
			case closes:
			case pings:
				_, _ = conn.Write(packet(pings, int64(1), int32(0)))
			default:
				content := "small"
				if asked++; asked == 2 {
					content = large
				}
				_, _ = conn.Write(packet(xid, int64(1), int32(0), content))
			}
		}
	}))
	s.Patience = 5 * time.Second
	conn, err := client.Dial(t.Context(), s)
	require.NoError(t, err)
	defer conn.Close()
	got, err := conn.Contents(t.Context(), []string{"/a", "/b", "/c"}, false)
	require.NoError(t, err)
	require.Equal(t, "small", string(got[0].Bytes))
	require.ErrorIs(t, got[1].Err, client.ErrTooLarge)
	require.Nil(t, got[1].Bytes)
	require.Equal(t, "small", string(got[2].Bytes))
}

func TestAnotherServerIsAskedWhereOneIsAway(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gone.Close()
	s := settings(greeted(t, func(conn net.Conn) { take(conn) }))
	s.Patience = 5 * time.Second // on a busy machine the one that is there may be slow
	s.Servers = append(s.Servers, gone.Addr().String(), gone.Addr().String())
	for s.First = range 10 {
		conn, err := client.Dial(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, s.Servers[0], conn.Server)
		conn.Close()
	}
}

// Whatever comes ends in an answer or an error, soon, and takes little memory.
func FuzzAnswers(f *testing.F) {
	f.Add(packet(int32(1), int64(1), int32(0), int32(2), "a", "b"))
	f.Add(append(packet(int32(1), int64(1), int32(0), int32(1), "a"), packet(int32(2), int64(1), int32(0), "content")...))
	f.Add(append(packet(int32(-1), int64(1), int32(0), int32(3), int32(3), "/a"), packet(int32(1), int64(1), int32(-101))...))
	f.Add(packet(int32(-2), int64(1), int32(0)))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, answers []byte) {
		mine, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = theirs.Write(greeting)
			_, _ = theirs.Write(answers)
			theirs.Close()
		}()
		s := settings("")
		s.Dial = func(context.Context, string) (net.Conn, error) { return mine, nil }
		conn, err := client.Dial(t.Context(), s)
		require.NoError(t, err)
		defer conn.Close()
		names, err := conn.Children(t.Context(), []string{"/a"}, false)
		if err != nil {
			return
		}
		require.Less(t, len(names[0].Names), len(answers)+1)
		_, _ = conn.Contents(t.Context(), []string{"/a", "/b"}, true)
	})
}
