package netns_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

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

func TestOneOfTwoNetworksWithTheSameAddressesLeadsOutOfIt(t *testing.T) {
	t.Parallel()
	outer := netns.NewOuterSwitch(t)
	one, two := netns.NewSwitch(t), netns.NewSwitch(t)
	one.LeadsTo(outer)
	two.LeadsTo(outer)
	client, server, far := one.Machine(t), two.Machine(t), outer.Machine(t)
	require.Equal(t, client.IPv4, server.IPv4)
	cable := outer.Join(server)
	go greet(far.Listen("tcp", "0.0.0.0:8080"), "far")
	go greet(server.Listen("tcp", "0.0.0.0:8080"), "server")
	require.Equal(t, "far", hear(t, client, netip.AddrPortFrom(far.IPv4, 8080).String()))
	require.Equal(t, "server", hear(t, client, netip.AddrPortFrom(cable.IPv4, 8080).String()))
}

func TestACableIsCutAndMended(t *testing.T) {
	t.Parallel()
	inner, outer := netns.NewSwitch(t), netns.NewOuterSwitch(t)
	near, far, other := inner.Machine(t), outer.Machine(t), outer.Machine(t)
	cable := outer.Join(near)
	address := netip.AddrPortFrom(far.IPv4, 8080).String()
	go greet(far.Listen("tcp", address), "far")
	require.Equal(t, "far", hear(t, near, address))
	reach := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		conn, err := near.Dial(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	}
	cable.Cut()
	require.Error(t, reach())
	require.Equal(t, "far", hear(t, other, address), "only this cable is cut")
	cable.Mend()
	require.NoError(t, reach())
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
