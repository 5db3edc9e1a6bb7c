package netns_test

import (
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

func TestMachinesReachEachOtherAndNobodyElse(t *testing.T) {
	t.Parallel()
	ours, theirs := pairOfMachines(t), pairOfMachines(t)
	for _, at := range []netip.Addr{ours.b.IPv4, ours.b.IPv6} {
		address := netip.AddrPortFrom(at, 8080).String()
		go greet(ours.b.Listen("tcp", address), "ours")
		go greet(theirs.b.Listen("tcp", address), "theirs")
		require.Equal(t, "ours", hear(t, ours.a, address))
		require.Equal(t, "theirs", hear(t, theirs.a, address))
	}
	require.Contains(t, ours.a.Run("ip", "route", "get", "240.240.0.1"), "via 10.77.0.1")
}

type pair struct{ a, b *netns.Namespace }

func pairOfMachines(t *testing.T) pair {
	t.Helper()
	s := netns.NewSwitch(t)
	return pair{s.Machine(t), s.Machine(t)}
}

func TestNamespacesEndWithTheirTest(t *testing.T) {
	var path string
	t.Run("inside", func(t *testing.T) {
		path = filepath.Join("/run/netns", netns.New(t).Name)
		_, err := os.Stat(path)
		require.NoError(t, err)
	})
	if path != "" { // the test inside was not skipped
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func greet(l net.Listener, word string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(conn, word)
		conn.Close()
	}
}

func hear(t *testing.T, from *netns.Namespace, address string) string {
	t.Helper()
	conn, err := from.Dial(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	said, err := io.ReadAll(conn)
	require.NoError(t, err)
	return string(said)
}
