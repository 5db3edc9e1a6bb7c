package redirect_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	envoyUser = redirect.Account{ID: 990, Name: "mesh-agent"}
	found     = redirect.Environment{
		SSH:         redirect.PortsOf(22, 2222),
		Discovery:   []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:15012"), netip.MustParseAddrPort("[fd00::1]:15012")},
		Nameservers: []netip.Addr{netip.MustParseAddr("10.0.0.53"), netip.MustParseAddr("127.0.0.53"), netip.MustParseAddr("fd00::53")},
		Addresses:   []netip.Addr{netip.MustParseAddr("10.0.0.7")},
		Agent:       redirect.PortsOf(15000, 15026), Resolver4: true, Resolver6: true,
	}
	listening = redirect.Listeners{OutboundTo: 15001, InboundTo: 15006, IPv4: true, IPv6: true, Services: redirect.PortsOf(8080, 9090)}
)

// everything is what people get who only turn redirection on.
func everything() redirect.Options {
	return redirect.Options{
		Table: "pgmesh", Mode: redirect.Redirect, Timeout: 30 * time.Second, DNSTo: 15053,
		OutboundPorts: []string{"all"}, InboundPorts: []string{"services"},
		EnvoyUser: envoyUser, EnvoyGroup: redirect.Account{ID: 991},
	}
}

func chosen() redirect.Options {
	o := everything()
	o.OutboundPorts, o.OutboundExceptPorts = []string{"80", "443", "8000-8999"}, []string{"8443"}
	o.OutboundCIDRs, o.OutboundExceptCIDRs = []string{"240.240.0.0/16", "2001:2::/48"}, []string{"240.240.9.0/24"}
	// Accounts that exist on no machine, because a plan contains the names of those that exist.
	o.Users, o.ExceptUsers = []string{"3100001", "3100002"}, []string{"0"}
	o.Groups, o.ExceptGroups = []string{"3200001"}, []string{"3200002"}
	o.OutboundInterfaces, o.ExceptInterfaces = []string{"eth0", "bond*"}, []string{"docker*"}
	o.InboundPorts, o.InboundExceptPorts = []string{"all"}, []string{"9100"}
	o.InboundCIDRs, o.InboundExceptCIDRs = []string{"10.0.0.0/8", "fd00::/8"}, []string{"10.9.0.0/16"}
	o.InboundInterfaces = []string{"eth0"}
	o.DNS = true
	return o
}

func TestRenderPlans(t *testing.T) {
	t.Parallel()
	transparent := everything()
	transparent.Mode = redirect.TProxy
	unguarded := everything()
	unguarded.Unguarded, unguarded.InboundPorts, unguarded.Table = true, []string{"all"}, "other"
	byGroup := everything()
	byGroup.EnvoyUser = redirect.Account{Name: "root"}
	byGroup.EnvoyGroup.Name = "mesh"
	outboundOnly := everything()
	outboundOnly.InboundPorts = []string{"none"}
	inboundOnly := everything()
	inboundOnly.OutboundPorts, inboundOnly.EnvoyUser, inboundOnly.EnvoyGroup = []string{"none"}, redirect.Account{}, redirect.Account{}
	manyPorts := everything()
	manyPorts.InboundPorts = strings.Fields("1 3 5 7 9 11 13 15 17 19 100-200 300-400 500-600")

	cases := map[string]struct {
		options   redirect.Options
		listeners redirect.Listeners
	}{
		"everything": {everything(), listening},
		"chosen":     {chosen(), listening},
		"tproxy":     {transparent, listening},
		"unguarded":  {unguarded, listening},
		"by-group":   {byGroup, listening},
		"outbound":   {outboundOnly, listening},
		"inbound":    {inboundOnly, listening},
		"many-ports": {manyPorts, listening},
		"ipv4-only":  {chosen(), redirect.Listeners{OutboundTo: 25001, InboundTo: 25006, IPv4: true}},
		"ipv6-only":  {everything(), redirect.Listeners{OutboundTo: 15001, InboundTo: 15006, IPv6: true, Services: redirect.PortsOf(8080, 9090)}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := c.options.Plan(found, c.listeners)
			require.NoError(t, err)
			golden(t, name+".nft", plan.NFT())
			golden(t, name+".iptables", plan.IPTables(false, ""))
			golden(t, name+".ip6tables", plan.IPTables(true, ""))
			for _, comment := range regexp.MustCompile(`comment "([^"]*)"`).FindAllStringSubmatch(plan.NFT(), -1) {
				require.LessOrEqual(t, len(comment[1]), 127, "nft takes no longer comment: %s", comment[1])
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "-update writes it")
	require.Equal(t, string(want), got, "-update writes %s anew", file)
}

// Existing jumps are not added again, and unwanted ones are removed.
func TestIPTablesUpdatesExistingRules(t *testing.T) {
	t.Parallel()
	plan, err := everything().Plan(found, listening)
	require.NoError(t, err)
	there := redirect.Saved("*nat\n:OUTPUT ACCEPT [0:0]\n:PGMESH_OUTPUT - [0:0]\n:PGMESH_PREROUTING - [0:0]\n" +
		"-A PREROUTING -j PGMESH_PREROUTING\n-A OUTPUT -j PGMESH_OUTPUT\nCOMMIT\n")
	require.NotContains(t, plan.IPTables(false, there), "-I ")

	plan.Inbound.Ports = nil
	text := plan.IPTables(false, there)
	require.Contains(t, text, "-D PREROUTING -j PGMESH_PREROUTING\n-X PGMESH_PREROUTING\n")
	require.NotContains(t, text, "-D OUTPUT")

	none := redirect.Plan{Table: "pgmesh"}
	require.Equal(t, "*nat\n:PGMESH_OUTPUT - [0:0]\n:PGMESH_PREROUTING - [0:0]\n-D OUTPUT -j PGMESH_OUTPUT\n-X PGMESH_OUTPUT\n"+
		"-D PREROUTING -j PGMESH_PREROUTING\n-X PGMESH_PREROUTING\nCOMMIT\n", none.IPTables(false, there))
	require.Empty(t, none.IPTables(false, "*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"))
}
