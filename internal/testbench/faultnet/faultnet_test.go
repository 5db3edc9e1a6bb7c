package faultnet_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/faultnet"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frame is an HTTP/2 frame: its length, its type, no flags, stream 1.
func frame(kind byte, payload string) []byte {
	return append([]byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, 0, 0, 0, 0, 1}, payload...)
}

// exchange sends something from a client and something else from a server through a proxy, and
// returns what each receives.
func exchange(t *testing.T, f faultnet.Fault, up, down []byte) (atServer, atClient []byte, cut int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p := proxy(t, l.Addr().String())
	p.Break(func(int) faultnet.Fault { return f })
	client, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer client.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()
	for _, c := range []net.Conn{client, server} {
		require.NoError(t, c.SetDeadline(time.Now().Add(limit)))
	}
	_, err = client.Write(append([]byte(preface), up...))
	require.NoError(t, err)
	heard := make([]byte, len(preface)+len(up))
	n, err := io.ReadFull(server, heard)
	if err != nil {
		p.Close()
		return heard[:n], nil, p.Cut()
	}
	_, _ = server.Write(down) // the client may be gone already
	atClient = make([]byte, len(down))
	m, _ := io.ReadFull(client, atClient)
	p.Close()
	return heard[:n], atClient[:m], p.Cut()
}

func TestFramesPass(t *testing.T) {
	t.Parallel()
	up, down := frame(0, "ask"), bytes.Repeat(frame(0, "answer"), 3)
	for name, f := range map[string]faultnet.Fault{
		"without faults": {}, "late": {Delay: func() time.Duration { return time.Millisecond }}, "that break later": {Up: 2, Down: 4, Bytes: 1000},
	} {
		atServer, atClient, cut := exchange(t, f, up, down)
		require.Equal(t, preface+string(up), string(atServer), name)
		require.Equal(t, string(down), string(atClient), name)
		require.Zero(t, cut, name)
	}
}

func TestConnectionsAreCutWhereTheyAreTold(t *testing.T) {
	t.Parallel()
	settings, one, two := frame(4, ""), frame(0, "one"), frame(0, "two")
	down := bytes.Join([][]byte{settings, one, two}, nil)

	_, atClient, cut := exchange(t, faultnet.Fault{Down: 1}, one, down)
	require.Equal(t, string(settings)+string(one), string(atClient), "settings are not data")
	require.Equal(t, 1, cut)

	_, atClient, cut = exchange(t, faultnet.Fault{Bytes: 11}, one, down)
	require.Equal(t, string(down[:11]), string(atClient))
	require.Equal(t, 1, cut)

	atServer, _, cut := exchange(t, faultnet.Fault{Up: 1}, append(frame(0, "one"), two...), down)
	require.Equal(t, preface+string(one), string(atServer))
	require.Equal(t, 1, cut)
}

func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	p := proxy(t, l.Addr().String())
	client, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.SetDeadline(time.Now().Add(limit)))
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
