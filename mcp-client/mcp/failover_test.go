package mcp_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

func TestFailoverToNextServer(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		a, b := newSource(t), newSource(t)
		for _, s := range []*source{a, b} {
			s.commit(1, resources{entry("a", "1"), entry("b", "1")})
		}
		f := follow(t, a.addr, form, func(cfg *mcp.Config) { cfg.Targets = append(cfg.Targets, b.addr) })
		f.expect(1, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
		require.Equal(t, a.addr, f.client.Status().Target)

		a.kill()
		b.commit(2, resources{entry("a", "2")})
		f.expect(2, "ServiceEntry default/a=2") // and nothing that was the same there
		require.Equal(t, b.addr, f.client.Status().Target)

		a.commit(3, resources{entry("a", "3")})
		a.start() // which is no reason to leave the other
		b.commit(4, resources{entry("a", "4")})
		f.expect(4, "ServiceEntry default/a=4")
		b.kill()
		f.expect(3, "ServiceEntry default/a=3") // what a server says counts, even if another knew more
	})
}

// The servers may be of different kinds. Each is spoken to in its own protocol.
func TestServersWithDifferentProtocols(t *testing.T) {
	t.Parallel()
	a, b := newSource(t), newPeer(t, likeHigress())
	a.commit(1, resources{entry("a", "1")})
	b.serve(serviceEntry.TypeURLs()[1], bodies(t, entry("a", "1"), entry("b", "1"))...)
	f := follow(t, a.addr, func(cfg *mcp.Config) { cfg.Targets = append(cfg.Targets, b.addr) })
	f.expect(1, "ServiceEntry default/a=1")
	require.Equal(t, mcp.Delta, f.client.Status().Protocol)
	a.kill()
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
	require.Equal(t, mcp.XDS, f.client.Status().Protocol)
	a.start()
	b.kill()
	f.expect(1, "ServiceEntry default/a=1", "ServiceEntry default/b gone")
	require.Equal(t, mcp.Delta, f.client.Status().Protocol)
}

func TestAllServersAreDown(t *testing.T) {
	t.Parallel()
	a, b := newSource(t), newSource(t)
	b.commit(1, resources{entry("b", "1")})
	a.kill()
	b.kill()
	lost := make(chan error, 1000)
	f := follow(t, a.addr, func(cfg *mcp.Config) {
		cfg.Targets, cfg.Down = append(cfg.Targets, b.addr), func(err error) { lost <- err }
	})
	for range 4 {
		require.Equal(t, codes.Unavailable, status.Code(<-lost))
	}
	b.start()
	f.expect(1, "ServiceEntry default/b=1")
}

func TestTargetsAreRequired(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, mcp.New(mcp.Config{}).Run(t.Context(), nil), "no address")
}

// A foreign server is replaced by a pgmesh server at its address.
func TestUpgradeToPgmesh(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeIstiod())
	p.serve(serviceEntry.TypeURLs()[1], bodies(t, entry("a", "1"), entry("b", "1"))...)
	f := follow(t, p.addr)
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
	require.Equal(t, mcp.XDS, f.client.Status().Protocol)
	p.kill()
	next := &source{sets: map[string]*served.Set{}}
	next.endpoint = &endpoint{t: t, register: next.register, addr: p.addr}
	next.commit(3, resources{entry("a", "1")})
	next.start()
	t.Cleanup(next.kill)
	f.expect(3, "ServiceEntry default/a=1", "ServiceEntry default/b gone")
	require.Equal(t, mcp.Delta, f.client.Status().Protocol)
	next.commit(4, nil, entry("a", "").Key())
	f.expect(4, "ServiceEntry default/a gone")
}
