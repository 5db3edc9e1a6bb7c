package resolver

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/claim"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/resolvconf"
)

// Options say how this machine's names are resolved.
type Options struct {
	Mode       string   // a claim.Mode
	Listen     []string // where the resolver answers
	Proxy      string   // where the machine's Envoy asks
	Upstreams  []string // who answers for other names than the mesh's
	Domains    []string // what systemd-resolved asks the resolver for, beside the mesh's own
	TTL        time.Duration
	ResolvConf string
}

// Flags declares all flags of the resolver.
func (o *Options) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Mode, "dns", string(claim.Off), "who answers for the names of the mesh on this machine: off, nobody; serve, the agent, for those who ask at --dns-listen; "+
		"resolved or resolv.conf, the agent, and the machine is told so by systemd-resolved or "+resolvconf.Path+"; auto, one of the latter three, as the machine is")
	o.ClaimFlags(flags)
	flags.StringVar(&o.Proxy, "dns-proxy-listen", "127.0.0.1:15054", "address where the machine's Envoy asks for what is behind services, with --dns: it would find itself by the names of the mesh")
	flags.StringSliceVar(&o.Upstreams, "dns-upstream", nil, "resolvers for what the mesh does not know, with --dns: 192.0.2.53,192.0.2.54:5353 (default: those of this machine)")
	flags.DurationVar(&o.TTL, "dns-ttl", 30*time.Second, "how long clients may remember a name of the mesh")
}

// ClaimFlags declares those that say where the resolver is and what the machine asks it for.
func (o *Options) ClaimFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Listen, "dns-listen", []string{"127.0.0.1:15053"}, "addresses of the agent's resolver, by UDP and TCP")
	flags.StringSliceVar(&o.Domains, "dns-domains", nil, "domains that systemd-resolved asks the agent for, beside the mesh's own, with --dns resolved: ~. is all (default: the hosts of the mesh)")
	flags.StringVar(&o.ResolvConf, "resolv-conf", resolvconf.Path, "file with this machine's resolvers")
}

// On reports whether applications get the names of the mesh.
func (o *Options) On() bool { return o.Mode != "" && o.Mode != string(claim.Off) }

// ProxyAddress is where Envoy asks, or "" if applications do not get the mesh's names.
func (o *Options) ProxyAddress() string {
	if !o.On() {
		return ""
	}
	return o.Proxy
}

// Loopbacks returns the resolver's loopback addresses to which the kernel can redirect queries:
// those with the first one's port.
func (o *Options) Loopbacks() (all []netip.AddrPort) {
	if !o.On() {
		return nil
	}
	for _, word := range o.Listen {
		at, err := netip.ParseAddrPort(word)
		loopback := at.Addr() == netip.IPv6Loopback() || at.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if err == nil && loopback && (len(all) == 0 || at.Port() == all[0].Port()) {
			all = append(all, at)
		}
	}
	return all
}

// Machine returns the handle that changes which resolver this machine asks. The state folder keeps
// what was changed.
func (o *Options) Machine(folder string, log *slog.Logger) *claim.Machine {
	m := claim.On(folder, log)
	m.ResolvConf = o.ResolvConf
	return m
}

// choose returns the mode, which --dns auto leaves to the machine.
func (o *Options) choose(on *claim.Machine) (claim.Mode, error) {
	mode, err := claim.ParseMode(o.Mode)
	if err != nil {
		return "", err
	}
	return on.Choose(mode)
}
