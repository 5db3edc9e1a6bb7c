package redirect_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
)

// mesh has addresses that no machine has.
var mesh = []netip.Addr{netip.MustParseAddr("240.240.0.1"), netip.MustParseAddr("2001:2::1")}

func families(s *site) map[string][3]netip.Addr {
	return map[string][3]netip.Addr{
		"IPv4": {s.machine.IPv4, s.beside.IPv4, mesh[0]},
		"IPv6": {s.machine.IPv6, s.beside.IPv6, mesh[1]},
	}
}

func TestOutboundIsRedirected(t *testing.T) {
	t.Parallel()
	o := everything()
	o.OutboundExceptPorts, o.ExceptUsers, o.OutboundExceptCIDRs = []string{"8080"}, []string{"1002"}, []string{"240.240.9.0/24", "2001:2:9::/48"}
	each(t, o, func(t *testing.T, s *site) {
		s.apply()
		for _, f := range families(s) {
			own, beside, vip := f[0], f[1], f[2]
			s.as(application).reaches(t, "tcp", at(vip, 80), "machine:15001 for "+at(vip, 80))
			s.as(application).reaches(t, "tcp", at(beside, 80), "machine:15001 for "+at(beside, 80))
			s.as(application).reaches(t, "udp", at(beside, 80), "beside:80 for datagrams")
			s.as(application).reaches(t, "udp", at(beside, 53), "beside:53 for datagrams")

			s.as(envoy).reaches(t, "tcp", at(beside, 80), "beside:80 for "+at(beside, 80))
			s.as(1002).reaches(t, "tcp", at(beside, 80), "beside:80 for "+at(beside, 80))
			s.as(application).reaches(t, "tcp", at(beside, 8080), "beside:8080 for "+at(beside, 8080))
			s.as(application).reaches(t, "tcp", at(beside, 22), "beside:22 for "+at(beside, 22))
			s.as(application).reaches(t, "tcp", at(beside, 53), "beside:53 for "+at(beside, 53))
			s.as(application).reaches(t, "tcp", at(own, 8080), "machine:8080 for "+at(own, 8080))
		}
		s.as(application).reaches(t, "tcp", at(s.beside.IPv4, 15012), "beside:15012 for "+at(s.beside.IPv4, 15012))
		s.as(application).reaches(t, "tcp", "127.0.0.1:8080", "machine:8080 for 127.0.0.1:8080")
		s.as(application).reaches(t, "tcp", "[::1]:8080", "machine:8080 for [::1]:8080")
		_, err := s.as(application).ask(t, "tcp", "240.240.9.1:80")
		require.Error(t, err, "nobody has that address, and it is excepted")
	})
}

func TestOutboundSelection(t *testing.T) {
	t.Parallel()
	o := everything()
	o.Users, o.Groups, o.OutboundPorts, o.OutboundInterfaces = []string{"1001", "1003"}, []string{"2001"}, []string{"80", "8000-8100"}, []string{"eth*"}
	o.OutboundCIDRs = []string{"10.77.0.0/16", "fd77::/16"}
	each(t, o, func(t *testing.T, s *site) {
		s.apply()
		for _, f := range families(s) {
			beside := at(f[1], 80)
			captured := client{at: s.machine, user: 1003, group: 2001}
			captured.reaches(t, "tcp", beside, "machine:15001 for "+beside)
			captured.reaches(t, "tcp", at(f[1], 8080), "machine:15001 for "+at(f[1], 8080))
			captured.reaches(t, "tcp", at(f[1], 15012), "beside:15012 for "+at(f[1], 15012))
			client{at: s.machine, user: 1003}.reaches(t, "tcp", beside, "beside:80 for "+beside)
			client{at: s.machine, user: 1002, group: 2001}.reaches(t, "tcp", beside, "beside:80 for "+beside)
		}
	})
}

func TestInboundIsRedirected(t *testing.T) {
	t.Parallel()
	o := everything()
	o.InboundPorts, o.InboundExceptPorts = []string{"all"}, []string{"8888"}
	each(t, o, func(t *testing.T, s *site) {
		s.apply()
		for _, f := range families(s) {
			own := f[0]
			outside := client{at: s.beside}
			outside.reaches(t, "tcp", at(own, 8080), "machine:15006 for "+at(own, 8080))
			outside.reaches(t, "tcp", at(own, 9999), "machine:15006 for "+at(own, 9999))
			outside.reaches(t, "tcp", at(own, 22), "machine:22 for "+at(own, 22))
			outside.reaches(t, "tcp", at(own, 8888), "machine:8888 for "+at(own, 8888))
			outside.reaches(t, "udp", at(own, 8080), "machine:8080 for datagrams")

			s.as(envoy).reaches(t, "tcp", at(own, 8080), "machine:15006 for "+at(own, 8080))
			s.as(envoy).reaches(t, "tcp", at(own, 8888), "machine:8888 for "+at(own, 8888))
		}
		handing := client{at: s.machine, user: envoy, from: "127.0.0.6"}
		handing.reaches(t, "tcp", at(s.machine.IPv4, 8080), "machine:8080 for "+at(s.machine.IPv4, 8080))
		s.as(envoy).reaches(t, "tcp", "127.0.0.1:8080", "machine:8080 for 127.0.0.1:8080")
	})
}

func TestInboundSelectionBySender(t *testing.T) {
	t.Parallel()
	o := everything()
	o.InboundPorts, o.InboundCIDRs, o.InboundInterfaces = []string{"8080"}, []string{"10.77.0.0/24"}, []string{"eth0"}
	each(t, o, func(t *testing.T, s *site) {
		s.apply()
		outside := client{at: s.beside}
		outside.reaches(t, "tcp", at(s.machine.IPv4, 8080), "machine:15006 for "+at(s.machine.IPv4, 8080))
		outside.reaches(t, "tcp", at(s.machine.IPv6, 8080), "machine:8080 for "+at(s.machine.IPv6, 8080))
		outside.reaches(t, "tcp", at(s.machine.IPv4, 8888), "machine:8888 for "+at(s.machine.IPv4, 8888))
	})
}

func TestDNSIsRedirected(t *testing.T) {
	t.Parallel()
	o := everything()
	o.DNS = true
	each(t, o, func(t *testing.T, s *site) {
		s.apply()
		for _, f := range families(s) {
			nameserver := at(f[1], 53)
			s.as(application).reaches(t, "udp", nameserver, "machine:15053 for datagrams")
			s.as(application).reaches(t, "tcp", nameserver, "machine:15053 for "+nameserver)
			s.as(envoy).reaches(t, "udp", nameserver, "beside:53 for datagrams")
			s.as(application).reaches(t, "udp", at(f[1], 80), "beside:80 for datagrams")
		}
	})
}

func TestUnusedFamilyIsLeftAlone(t *testing.T) {
	t.Parallel()
	each(t, everything(), func(t *testing.T, s *site) {
		s.apply()
		s.plan.IPv6 = false
		s.apply()
		s.as(application).reaches(t, "tcp", at(s.beside.IPv4, 80), "machine:15001 for "+at(s.beside.IPv4, 80))
		s.as(application).reaches(t, "tcp", at(s.beside.IPv6, 80), "beside:80 for "+at(s.beside.IPv6, 80))
	})
}

// The kernel measures the time; no process removes the rules.
func TestUnconfirmedRulesExpire(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	each(t, everything(), func(t *testing.T, s *site) {
		s.plan.Timeout = timeout
		s.apply()
		beside := at(s.beside.IPv4, 80)
		redirected, direct := "machine:15001 for "+beside, "beside:80 for "+beside
		open, answer, err := s.as(application).open(t, "tcp", beside)
		require.NoError(t, err)
		require.Equal(t, redirected, answer)

		// Confirmed for longer than one timeout.
		tick := time.NewTicker(timeout / 3)
		defer tick.Stop()
		for range 5 {
			<-tick.C
			s.inside(func(ctx context.Context) error { return s.kernel.Confirm(ctx, s.plan) })
			s.as(application).reaches(t, "tcp", beside, redirected)
		}
		begin := time.Now()
		s.as(application).comesToReach(t, beside, direct)
		require.Greater(t, time.Since(begin), timeout/2)
		// With iptables each family has a list of its own, confirmed separately.
		s.as(application).comesToReach(t, at(s.beside.IPv6, 80), "beside:80 for "+at(s.beside.IPv6, 80))
		client{at: s.beside}.reaches(t, "tcp", at(s.machine.IPv4, 8080), "machine:8080 for "+at(s.machine.IPv4, 8080))
		talks(t, open)

		s.inside(func(ctx context.Context) error { return s.kernel.Confirm(ctx, s.plan) })
		s.as(application).reaches(t, "tcp", beside, redirected)
	})
}

func TestOpenConnectionsOutliveChangesOfRules(t *testing.T) {
	t.Parallel()
	each(t, everything(), func(t *testing.T, s *site) {
		s.apply()
		beside := at(s.beside.IPv4, 80)
		open, _, err := s.as(application).open(t, "tcp", beside)
		require.NoError(t, err)
		s.plan.Outbound.ExceptPorts = redirect.PortsOf(81)
		s.apply()
		talks(t, open)
		s.as(application).reaches(t, "tcp", beside, "machine:15001 for "+beside)

		s.inside(func(ctx context.Context) error { return s.kernel.Release(ctx, s.plan) })
		s.as(application).reaches(t, "tcp", beside, "beside:80 for "+beside)
		talks(t, open)
	})
}

func TestApplyIsIdempotent(t *testing.T) {
	t.Parallel()
	o := everything()
	o.Mode, o.DNS = redirect.TProxy, true
	each(t, o, func(t *testing.T, s *site) {
		s.apply()
		once := s.rules()
		require.Contains(t, strings.ToLower(once), "pgmesh")
		s.apply()
		require.Equal(t, once, s.rules())
	})
}

func TestRemoveLeavesOnlyOthersRules(t *testing.T) {
	t.Parallel()
	o := everything()
	o.Mode = redirect.TProxy
	each(t, o, func(t *testing.T, s *site) {
		before := s.rules()
		remove := func() {
			s.inside(func(ctx context.Context) error { return s.kernel.Remove(ctx, s.plan) })
		}
		remove() // nothing to remove yet
		s.apply()
		require.NotEqual(t, before, s.rules())
		remove()
		if s.kernel.String() == redirect.ByNFT {
			require.Equal(t, before, s.rules())
			require.Empty(t, s.machine.Run("nft", "list", "ruleset"))
		}

		// Others have rules in the same kernel chains.
		others := [][]string{{"nft", "add", "table", "inet", "theirs"}}
		if s.kernel.String() != redirect.ByNFT {
			others = append(others,
				[]string{s.kernel.String(), "-t", "nat", "-N", "THEIRS"},
				[]string{s.kernel.String(), "-t", "nat", "-A", "OUTPUT", "-j", "THEIRS"},
				[]string{s.kernel.String(), "-t", "mangle", "-A", "PREROUTING", "-p", "tcp", "-j", "ACCEPT"})
		}
		for _, command := range others {
			s.machine.Run(command...)
		}
		before = s.rules()
		s.apply()
		require.NotEqual(t, before, s.rules())
		remove()
		require.Equal(t, before, s.rules())
	})
}

func TestState(t *testing.T) {
	t.Parallel()
	each(t, everything(), func(t *testing.T, s *site) {
		state := func() (found redirect.State) {
			s.inside(func(ctx context.Context) (err error) {
				found, err = s.kernel.State(ctx, s.plan)
				return err
			})
			return found
		}
		require.Equal(t, redirect.State{}, state())
		s.apply()
		s.as(application).reaches(t, "tcp", at(mesh[0], 80), "machine:15001 for "+at(mesh[0], 80))
		now := state()
		require.True(t, now.Present)
		require.Equal(t, s.kernel.String(), now.By)
		require.Contains(t, now.Counts, redirect.RuleCount{Why: "what goes out is Envoy's to send", Count: 1})
		if s.kernel.String() == redirect.ByNFT {
			require.InDelta(t, s.plan.Timeout.Seconds(), now.Confirmed.Seconds(), 5)
		}
	})
}

func TestAuto(t *testing.T) {
	t.Parallel()
	s := newSite(t, redirect.ByNFT, everything())
	s.inside(func(ctx context.Context) error {
		k, err := redirect.Open(ctx, redirect.Auto, s.plan)
		require.NoError(t, err)
		require.Equal(t, redirect.ByNFT, k.String())
		return nil
	})
	require.Empty(t, s.machine.Run("nft", "list", "ruleset"), "looking changes nothing")
	s.apply()
	s.inside(func(ctx context.Context) error {
		found, err := redirect.Find(ctx, s.plan.Table)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, redirect.ByNFT, found[0].String())
		found, err = redirect.Find(ctx, "other")
		require.NoError(t, err)
		require.Empty(t, found)
		return nil
	})
	_, err := redirect.Open(t.Context(), "ufw", s.plan)
	require.ErrorContains(t, err, "choose one of auto, nft, iptables")
}
