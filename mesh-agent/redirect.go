package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// redirectFlags say what of the machine's traffic is redirected to Envoy.
type redirectFlags struct {
	on      bool
	by      string
	choices redirect.Options
	ssh     *redirect.SSH
}

func (f *redirectFlags) declare(flags *pflag.FlagSet) {
	o := &f.choices
	f.ssh = &redirect.SSH{}
	flags.BoolVar(&f.on, "redirect", false, "send connections of this machine's programs through Envoy, without their knowledge; see docs/redirection.md")
	flags.StringVar(&f.by, "redirect-by", redirect.Auto, "program that changes the kernel's rules: nft, iptables, iptables-nft, iptables-legacy, or auto")
	flags.StringVar(&o.Table, "redirect-table", "pgmesh", "name of the rules: of nft's table, and of the chains of iptables")
	flags.DurationVar(&o.Timeout, "redirect-timeout", 30*time.Second, "how long the rules go on to count when the agent and Envoy are no longer known to be well")
	flags.BoolVar(&o.DNS, "redirect-dns", false, "send questions to the machine's nameservers to the agent's resolver")
	flags.BoolVar(&o.Unguarded, "redirect-unguarded", false, "redirect also SSH, discovery, nameservers and the cloud's metadata, where they are among what is chosen")
	for _, list := range []struct {
		value       *[]string
		name, usage string
		standard    []string
	}{
		{&o.OutboundPorts, "outbound-ports", "ports that go out through Envoy: 80, 8000-8100, all or none", []string{redirect.All}},
		{&o.OutboundExceptPorts, "outbound-except-ports", "ports that do not, of those", nil},
		{&o.OutboundCIDRs, "outbound-cidrs", "addresses, or ranges of them, that go out through Envoy: 240.240.0.0/16 (default: all)", nil},
		{&o.OutboundExceptCIDRs, "outbound-except-cidrs", "addresses that do not, of those", nil},
		{&o.OutboundInterfaces, "outbound-interfaces", "network interfaces whose traffic goes out through Envoy: eth0, bond* (default: all)", nil},
		{&o.Users, "users", "users whose connections go out through Envoy, by name or number (default: all)", nil},
		{&o.ExceptUsers, "except-users", "users whose connections do not", nil},
		{&o.Groups, "groups", "groups whose programs' connections go out through Envoy (default: all)", nil},
		{&o.ExceptGroups, "except-groups", "groups whose programs' connections do not", nil},
		{&o.InboundPorts, "inbound-ports", "ports that come in through Envoy: 8080, all, none, or services, which are those that the mesh knows as services of this machine", []string{redirect.Services}},
		{&o.InboundExceptPorts, "inbound-except-ports", "ports that do not, of those", nil},
		{&o.InboundCIDRs, "inbound-cidrs", "senders that come in through Envoy (default: all)", nil},
		{&o.InboundExceptCIDRs, "inbound-except-cidrs", "senders that do not, of those", nil},
		{&o.InboundInterfaces, "inbound-interfaces", "network interfaces whose traffic comes in through Envoy (default: all)", nil},
		{&o.ExceptInterfaces, "except-interfaces", "network interfaces that are left alone, in and out: docker*", nil},
	} {
		flags.StringSliceVar(list.value, "redirect-"+list.name, list.standard, list.usage)
	}
}

// mode returns how traffic reaches Envoy. By default it follows from --redirect.
func (m *member) mode() bootstrap.Interception {
	switch {
	case m.interception != "":
		return bootstrap.Interception(m.interception)
	case m.redirect.on:
		return bootstrap.Redirect
	}
	return bootstrap.None
}

// checkRedirect returns an error for flags that exclude redirection.
func (m *member) checkRedirect() error {
	switch {
	case m.role == string(bootstrap.Gateway):
		return errors.New("--redirect and --role gateway exclude each other: a gateway opens its ports itself")
	case m.mode() != bootstrap.Redirect && m.mode() != bootstrap.TProxy:
		return fmt.Errorf("--redirect sends traffic to Envoy, which --interception-mode %s does not expect: leave that flag out, or write REDIRECT or TPROXY", m.mode())
	case m.redirect.choices.DNS && len(m.dns.loopbacks()) == 0:
		return errors.New("--redirect-dns sends questions to the agent's resolver: switch that on with --dns serve, at a loopback address (--dns-listen)")
	}
	return nil
}

// redirectOptions returns the flags completed for this machine.
func (m *member) redirectOptions() redirect.Options {
	o := m.redirect.choices
	o.Mode = redirect.Mode(m.mode())
	if at := m.dns.loopbacks(); len(at) > 0 {
		o.DNSTo = at[0].Port()
	}
	o.EnvoyUser, o.EnvoyGroup = redirect.UserOf(uint32(os.Geteuid())), redirect.GroupOf(uint32(os.Getegid()))
	if account, err := m.tuning.account(); err == nil && account != nil { // a wrong account is reported elsewhere
		o.EnvoyUser, o.EnvoyGroup = redirect.UserOf(account.UID), redirect.GroupOf(account.GID)
	}
	return o
}

// loopbacks returns the resolver's loopback addresses to which the kernel can redirect queries: those with
// the first one's port.
func (f *dnsFlags) loopbacks() (all []netip.AddrPort) {
	if !f.on() {
		return nil
	}
	for _, word := range f.listen {
		at, err := netip.ParseAddrPort(word)
		loopback := at.Addr() == netip.IPv6Loopback() || at.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if err == nil && loopback && (len(all) == 0 || at.Port() == all[0].Port()) {
			all = append(all, at)
		}
	}
	return all
}

// environment returns what the machine depends on now.
func (m *member) environment(ctx context.Context, statusAddress string) redirect.Environment {
	s := redirect.Environment{
		SSH: m.redirect.ssh.Ports(), Nameservers: redirect.Nameservers(m.dns.resolvConf), Addresses: redirect.Addresses(),
		Agent: redirect.PortsOf(portOf(m.options.Admin), portOf(statusAddress)),
	}
	for _, at := range m.dns.listen {
		s.Agent = s.Agent.Plus(redirect.PortsOf(portOf(at)))
	}
	for _, at := range m.dns.loopbacks() {
		s.Resolver4, s.Resolver6 = s.Resolver4 || at.Addr().Is4(), s.Resolver6 || at.Addr().Is6()
	}
	servers, _ := m.servers() // an agent without servers does not run
	for _, server := range servers {
		s.Discovery = append(s.Discovery, resolve(ctx, server)...)
	}
	return s
}

// otherFamily returns the address of the other IP family on the same interface, if there is one.
func otherFamily(ip string) []string {
	own, err := netip.ParseAddr(ip)
	interfaces, err2 := net.Interfaces()
	if err != nil || err2 != nil {
		return nil
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		var all []netip.Addr
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, p.Addr().Unmap())
			}
		}
		if !slices.Contains(all, own) {
			continue
		}
		for _, a := range all {
			if a.Is4() != own.Is4() && (a.IsGlobalUnicast() || own.IsLoopback() && a.IsLoopback()) {
				return []string{a.String()}
			}
		}
	}
	return nil
}

// resolveTimeout bounds the lookup of discovery's addresses. If it fails, the agent's own connections still
// are not redirected, by their mark.
const resolveTimeout = 2 * time.Second

func resolve(ctx context.Context, server string) (all []netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return nil
	}
	addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, a := range addresses {
		all = append(all, netip.AddrPortFrom(a.Unmap().WithZone(""), portOf(server)))
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// portOf returns the port of an address, 0 if it has none.
func portOf(address string) uint16 {
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseUint(port, 10, 16)
	return uint16(number)
}

// redirection runs while the agent does. Without a keeper it redirects nothing.
type redirection struct {
	keeper     *redirect.Keeper
	markerFile string // file that records that there may be rules
	log        *slog.Logger
}

// redirection checks that the machine can redirect as configured; Run starts to when Envoy is ready.
// Without --redirect it removes an earlier agent's rules.
func (m *member) redirection(ctx context.Context, statusAddress string, envoy redirect.Admin, server *status.Server, log *slog.Logger) (*redirection, error) {
	r := &redirection{markerFile: m.state.File("redirect"), log: log}
	if !m.redirect.on {
		r.removeLeftovers(ctx)
		return r, nil
	}
	if err := m.checkRedirect(); err != nil {
		return nil, err
	}
	o := m.redirectOptions()
	plan := func(ctx context.Context, l redirect.Listeners) (redirect.Plan, error) {
		return o.Plan(m.environment(ctx, statusAddress), l)
	}
	trial, err := plan(ctx, m.defaultListeners())
	if err != nil {
		return nil, err
	}
	kernel, err := redirect.Open(ctx, m.redirect.by, trial)
	if err == nil {
		err = kernel.Check(ctx, trial)
	}
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(m.state.Path, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(r.markerFile, []byte(o.Table+"\n"), 0o600); err != nil {
		return nil, err
	}
	r.keeper = &redirect.Keeper{
		Kernel: kernel, Plan: plan, Log: log,
		Envoy: func(ctx context.Context) (redirect.Listeners, error) { return redirect.AskListeners(ctx, envoy) },
	}
	server.Parts.Redirection = r.status
	return r, nil
}

// defaultListeners stand in for an Envoy that cannot be asked yet.
func (m *member) defaultListeners() redirect.Listeners {
	l := redirect.Listeners{OutboundTo: 15001, InboundTo: 15006, IPv4: true, IPv6: true}
	for _, s := range m.services() {
		for _, port := range s.Ports {
			l.Services = l.Services.Plus(redirect.PortsOf(uint16(port)))
		}
	}
	return l
}

// run redirects until ctx ends. The returned context ends when new connections are no longer redirected.
func (r *redirection) run(ctx context.Context, group *errgroup.Group) context.Context {
	if r.keeper == nil {
		return ctx
	}
	until, released := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer released()
		r.keeper.Run(ctx)
		return nil
	})
	return until
}

// close removes the rules, after Envoy has ended.
func (r *redirection) close(ctx context.Context) {
	if r.keeper == nil {
		return
	}
	if err := r.keeper.Close(ctx); err != nil {
		r.log.Error("rules of redirection are left, and match nothing; `mesh-agent redirect remove` takes them away", "error", err)
		return
	}
	_ = os.Remove(r.markerFile)
}

// removeLeftovers removes the rules of a killed agent, if this one is not to redirect.
func (r *redirection) removeLeftovers(ctx context.Context) {
	table, err := os.ReadFile(r.markerFile)
	if err != nil {
		return
	}
	removed, err := redirect.RemoveAll(ctx, string(table[:max(0, len(table)-1)]))
	if err != nil {
		r.log.Warn("an earlier agent's redirection rules could not be removed; they match nothing", "error", err)
		return
	}
	if len(removed) > 0 {
		r.log.Info("removed an earlier agent's redirection rules", "by", removed)
	}
	_ = os.Remove(r.markerFile)
}

func (r *redirection) status() status.Redirection {
	now := r.keeper.Status()
	s := status.Redirection{By: now.By, Rules: now.Rules, Confirmed: now.Confirmed, Until: now.Until}
	if now.Error != nil {
		s.Trouble = "nothing is redirected, or soon will not be: " + now.Error.Error()
	}
	return s
}
