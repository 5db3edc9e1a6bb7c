package redirect_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
)

func TestInvalidOptionsAreExplained(t *testing.T) {
	t.Parallel()
	root := redirect.Account{Name: "root"}
	for says, change := range map[string]func(*redirect.Options){
		`--redirect-outbound-ports: "http" is no port: write 80, or 8000-8100 for a range, or all, or none`: func(o *redirect.Options) { o.OutboundPorts = []string{"http"} },
		`--redirect-inbound-ports: "90-80" is no port`:                                                      func(o *redirect.Options) { o.InboundPorts = []string{"90-80"} },
		`--redirect-outbound-cidrs: "10.0.0.0/33" is no range of addresses`:                                 func(o *redirect.Options) { o.OutboundCIDRs = []string{"10.0.0.0/33"} },
		`--redirect-users: there is no user "nobody-here" on this machine`:                                  func(o *redirect.Options) { o.Users = []string{"nobody-here"} },
		`--redirect-except-groups: there is no group "nobody-here" on this machine`:                         func(o *redirect.Options) { o.ExceptGroups = []string{"nobody-here"} },
		`--redirect-except-interfaces: "docker *" is no network interface`:                                  func(o *redirect.Options) { o.ExceptInterfaces = []string{"docker *"} },
		`--redirect-table Mesh-1: write up to sixteen small letters`:                                        func(o *redirect.Options) { o.Table = "Mesh-1" },
		`--redirect-timeout 1s: choose from 3s to 24h0m0s`:                                                  func(o *redirect.Options) { o.Timeout = time.Second },
		`there is nothing to redirect`: func(o *redirect.Options) {
			o.OutboundPorts, o.InboundPorts = []string{"none"}, []string{"none"}
		},
		`port 22 is not redirected (SSH: people get on this machine by it): leave it out of --redirect-inbound-ports`: func(o *redirect.Options) {
			o.InboundPorts = []string{"20-25"}
		},
		`port 2222 is not redirected (SSH: people get on this machine by it): leave it out of --redirect-outbound-ports`: func(o *redirect.Options) {
			o.OutboundPorts = []string{"80", "2222"}
		},
		`port 15006 is not redirected (Envoy's and its agent's own ports)`: func(o *redirect.Options) {
			o.InboundPorts, o.Unguarded = []string{"15006"}, true
		},
		`Envoy runs as root, and so may programs whose connections are redirected`: func(o *redirect.Options) { o.EnvoyUser, o.EnvoyGroup = root, root },
		`what user mesh-agent (990) sends is Envoy's own`:                          func(o *redirect.Options) { o.Users = []string{"990"} },
		`--redirect-dns: /etc/resolv.conf names no nameserver`: func(o *redirect.Options) {
			o.DNS = true
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			o, s := everything(), found
			s.Nameservers = nil
			change(&o)
			_, err := o.Plan(s, listening)
			require.ErrorContains(t, err, says)
		})
	}
}

// Envoy may run as root if root's connections are excluded, or none are redirected outbound.
func TestEnvoyAsRoot(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*redirect.Options){
		"root excepted":       func(o *redirect.Options) { o.ExceptUsers = []string{"0"} },
		"root's group too":    func(o *redirect.Options) { o.ExceptGroups = []string{"0"} },
		"others chosen":       func(o *redirect.Options) { o.Users = []string{"1001"} },
		"other groups chosen": func(o *redirect.Options) { o.Groups = []string{"1001"} },
		"nothing goes out":    func(o *redirect.Options) { o.OutboundPorts = []string{"none"} },
		"a group of its own":  func(o *redirect.Options) { o.EnvoyGroup = redirect.Account{ID: 991} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := everything()
			o.EnvoyUser, o.EnvoyGroup = redirect.Account{}, redirect.Account{}
			change(&o)
			_, err := o.Plan(found, listening)
			require.NoError(t, err)
		})
	}
}

// A service on a guarded port is left out silently: the port was not chosen explicitly.
func TestGuardedServicesAreLeftOut(t *testing.T) {
	t.Parallel()
	l := listening
	l.Services = redirect.PortsOf(22, 8080)
	plan, err := everything().Plan(found, l)
	require.NoError(t, err)
	require.Equal(t, redirect.PortsOf(8080), plan.Inbound.Ports)
}

func TestLocalDiscoveryIsGuardedBothWays(t *testing.T) {
	t.Parallel()
	s := found
	s.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	o := everything()
	o.InboundPorts = []string{"15012"}
	_, err := o.Plan(s, listening)
	require.ErrorContains(t, err, "port 15012 is not redirected (discovery)")
	o.Unguarded = true
	_, err = o.Plan(s, listening)
	require.NoError(t, err)
}
