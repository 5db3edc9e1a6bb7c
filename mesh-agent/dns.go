package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/claim"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/resolvconf"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// dnsFlags say how this machine's names are resolved.
type dnsFlags struct {
	mode       string
	listen     []string
	proxy      string
	upstreams  []string
	domains    []string
	ttl        time.Duration
	resolvConf string
}

func (f *dnsFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.mode, "dns", string(claim.Off), "who answers for the names of the mesh on this machine: off, nobody; serve, the agent, for those who ask at --dns-listen; "+
		"resolved or resolv.conf, the agent, and the machine is told so by systemd-resolved or "+resolvconf.Path+"; auto, one of the latter three, as the machine is")
	f.declareClaim(flags)
	flags.StringVar(&f.proxy, "dns-proxy-listen", "127.0.0.1:15054", "address where the machine's Envoy asks for what is behind services, with --dns: it would find itself by the names of the mesh")
	flags.StringSliceVar(&f.upstreams, "dns-upstream", nil, "resolvers for what the mesh does not know, with --dns: 192.0.2.53,192.0.2.54:5353 (default: those of this machine)")
	flags.DurationVar(&f.ttl, "dns-ttl", 30*time.Second, "how long clients may remember a name of the mesh")
}

// declareClaim declares the flags for configuring the machine to use a resolver.
func (f *dnsFlags) declareClaim(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.listen, "dns-listen", []string{"127.0.0.1:15053"}, "addresses of the agent's resolver, by UDP and TCP")
	flags.StringSliceVar(&f.domains, "dns-domains", nil, "domains that systemd-resolved asks the agent for, beside the mesh's own, with --dns resolved: ~. is all (default: the hosts of the mesh)")
	flags.StringVar(&f.resolvConf, "resolv-conf", resolvconf.Path, "file with this machine's resolvers")
}

func (f *dnsFlags) on() bool { return f.mode != "" && f.mode != string(claim.Off) }

// proxyAddress is where Envoy asks, or "" if applications do not get the mesh's names.
func (f *dnsFlags) proxyAddress() string {
	if !f.on() {
		return ""
	}
	return f.proxy
}

func (f *dnsFlags) machine(state statedir.Folder, log *slog.Logger) *claim.Machine {
	m := claim.On(state.Path, log)
	m.ResolvConf = f.resolvConf
	return m
}

// resolver is this machine's resolver; nil means none.
type resolver struct {
	*dns.Server

	machine *claim.Machine
	claim   claim.Claim
	domains []string // from the flag
}

// resolver opens the resolver. It reverts what an earlier agent left configured, if that is not wanted any
// more.
func (m *member) resolver(who *machine, log *slog.Logger, metrics prometheus.Registerer) (*resolver, error) {
	mode, err := claim.ParseMode(m.dns.mode)
	if err != nil {
		return nil, err
	}
	on := m.dns.machine(m.state, log)
	if mode, err = on.Choose(mode); err != nil {
		return nil, err
	}
	if mode == claim.Off || mode == claim.Serve {
		if err := restoreLeftover(on, log); err != nil {
			return nil, err
		}
	}
	if mode == claim.Off {
		return nil, nil
	}
	o, err := m.complete(who)
	switch {
	case err != nil:
		return nil, err
	case o.Role == bootstrap.Gateway:
		return nil, fmt.Errorf("--dns %s: a gateway is told no names of the mesh, for no applications ask it: leave --dns out", mode)
	case m.dns.proxy == "" || strings.HasSuffix(m.dns.proxy, ":0"):
		return nil, fmt.Errorf("--dns-proxy-listen %q: Envoy is told where to ask, so this has to be an address with a port, as 127.0.0.1:15054", m.dns.proxy)
	case m.dns.ttl < 0 || m.dns.ttl > 24*time.Hour:
		return nil, fmt.Errorf("--dns-ttl %s: expected a time of up to a day", m.dns.ttl)
	}
	server, err := dns.Open(dns.Options{
		Listen: m.dns.listen, Proxy: m.dns.proxy, Except: m.discoveryHosts(), Port53: mode == claim.ResolvConf, Domain: o.Domain, TTL: m.dns.ttl, Upstreams: m.dns.upstreams,
		ResolvConf: m.dns.resolvConf, BypassStub: func() bool { return mode == claim.Resolved || on.Routes() }, NamesFile: m.state.File("names"), Log: log, Metrics: metrics,
	})
	if err != nil {
		return nil, err
	}
	return &resolver{Server: server, machine: on, claim: m.dns.claim(mode, server.Addresses(), server.Port53Address()), domains: m.dns.domains}, nil
}

// discoveryHosts returns the host names of discovery, whose resolution must not depend on discovery.
func (m *member) discoveryHosts() (out []string) {
	servers, err := m.servers()
	if err != nil {
		return nil // reported where they are needed
	}
	for _, at := range servers {
		if host, _, err := net.SplitHostPort(at); err == nil {
			out = append(out, host)
		}
	}
	return out
}

// restoreLeftover reverts what an earlier agent left. What root applied for an unprivileged agent, only
// root reverts.
func restoreLeftover(on *claim.Machine, log *slog.Logger) error {
	did, err := on.Restore()
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if did != "" {
		log.Info("names are asked for as before", "did", did)
	}
	return err
}

func (f *dnsFlags) claim(mode claim.Mode, addresses []netip.AddrPort, plain netip.AddrPort) claim.Claim {
	c := claim.Claim{Mode: mode, Domains: f.domains}
	if mode == claim.ResolvConf {
		c.Server = plain
	} else if len(addresses) > 0 {
		c.Server = addresses[0]
	}
	return c
}

// sink returns the function that receives name tables, nil if there is no resolver.
func (r *resolver) sink() func(*ndsv1.NameTable) {
	if r == nil {
		return nil
	}
	return r.Names
}

// firstTableTimeout is how long to wait for discovery's first table before the machine is configured to use
// the known names.
const firstTableTimeout = 5 * time.Second

// run serves until serving ends. The machine is configured to use the resolver until ctx ends.
func (r *resolver) run(ctx, serving context.Context) error {
	if r == nil {
		return nil
	}
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return r.Run(serving) })
	switch {
	case r.claim.Mode == claim.Serve:
	case !r.machine.Permitted(r.claim.Mode):
		r.machine.Log.Info("this agent may not have the machine ask it for names, and leaves that to root: mesh-agent dns apply, as the unit does")
	default:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(serving, cancel)() // stop using a resolver that no longer answers
		group.Go(func() error { return r.keep(ctx) })
	}
	return group.Wait()
}

// keep configures the machine once there are names.
func (r *resolver) keep(ctx context.Context) error {
	timer := time.NewTimer(firstTableTimeout)
	defer timer.Stop()
	select {
	case <-r.FirstTable():
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.machine.Keep(ctx, r.claim, r.routedDomains())
}

// routedDomains returns the function that lists what systemd-resolved routes to the resolver.
func (r *resolver) routedDomains() func() []string {
	if r.claim.Mode != claim.Resolved {
		return nil
	}
	r.claim.Others = claim.IPs(r.Upstreams())
	return func() []string {
		if len(r.domains) > 0 {
			return append(r.Completions(), r.domains...)
		}
		return claim.Domains(r.Completions(), r.Hosts())
	}
}

// status returns the function that reports the resolver's status.
func (r *resolver) status() func() status.DNS {
	if r == nil {
		return nil
	}
	return func() status.DNS {
		names, known := r.Known()
		s := status.DNS{Listen: fmt.Sprint(r.Addresses()), Names: names}
		for _, u := range r.Upstreams() {
			s.Forwards = append(s.Forwards, u.String())
		}
		if r.claim.Mode != claim.Serve {
			s.Managed = string(r.claim.Mode)
		}
		switch {
		case !known && names > 0:
			s.Trouble = "discovery has not said yet what names there are; those that there were last are answered for"
		case !known:
			s.Trouble = "discovery has not said yet what names there are"
		case len(s.Forwards) == 0:
			s.Trouble = "there is nobody to ask for other names than the mesh's: name a resolver with --dns-upstream"
		}
		return s
	}
}
