package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/mesh-agent/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/redirect"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// redirectFlags say what of the machine's traffic goes through Envoy by itself.
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

// mode is how traffic comes to Envoy: unless somebody has said it otherwise, as the rules send it.
func (m *member) mode() bootstrap.Interception {
	switch {
	case m.interception != "":
		return bootstrap.Interception(m.interception)
	case m.redirect.on:
		return bootstrap.Redirect
	}
	return bootstrap.None
}

// checkRedirect refuses what excludes redirection.
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

// redirectOptions are the choices, on this machine.
func (m *member) redirectOptions() redirect.Options {
	o := m.redirect.choices
	o.Mode = redirect.Mode(m.mode())
	if at := m.dns.loopbacks(); len(at) > 0 {
		o.DNSTo = at[0].Port()
	}
	o.EnvoyUser, o.EnvoyGroup = redirect.UserOf(uint32(os.Geteuid())), redirect.GroupOf(uint32(os.Getegid()))
	if account, err := m.tuning.account(); err == nil && account != nil { // a wrong one ends the agent elsewhere
		o.EnvoyUser, o.EnvoyGroup = redirect.UserOf(account.UID), redirect.GroupOf(account.GID)
	}
	return o
}

// loopbacks are where the kernel can redirect questions to: on loopback, at the port of the first.
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

// surroundings are what the machine depends on now.
func (m *member) surroundings(ctx context.Context, statusAddress string) redirect.Environment {
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
	servers, _ := m.servers() // without one nothing would run
	for _, server := range servers {
		s.Discovery = append(s.Discovery, resolved(ctx, server)...)
	}
	return s
}

// otherFamily is the machine's address of the other family, at the interface of this one: IPv6 for an IPv4 address. There may be none.
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

// resolveLimit bounds a question for discovery's addresses. Without an answer the agent's own connections are let through all the same.
const resolveLimit = 2 * time.Second

func resolved(ctx context.Context, server string) (all []netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
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

// portOf is 0 for an address without one.
func portOf(address string) uint16 {
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseUint(port, 10, 16)
	return uint16(number)
}

// redirection is what redirects while the agent runs. The zero value redirects nothing.
type redirection struct {
	keeper *redirect.Keeper
	mark   string // file that says that there may be rules
	log    *slog.Logger
}

// redirection finds out whether the machine can do what is wanted. Nothing is redirected before Envoy is ready. What an earlier agent has left
// is taken away where nothing is wanted.
func (m *member) redirection(ctx context.Context, statusAddress string, envoy redirect.Admin, about *status.Server, log *slog.Logger) (*redirection, error) {
	r := &redirection{mark: filepath.Join(m.state.folder, "redirect"), log: log}
	if !m.redirect.on {
		r.clean(ctx)
		return r, nil
	}
	if err := m.checkRedirect(); err != nil {
		return nil, err
	}
	o := m.redirectOptions()
	plan := func(ctx context.Context, l redirect.Listeners) (redirect.Plan, error) {
		return o.Plan(m.surroundings(ctx, statusAddress), l)
	}
	trial, err := plan(ctx, m.usualListeners())
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
	if err := os.MkdirAll(m.state.folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(r.mark, []byte(o.Table+"\n"), 0o600); err != nil {
		return nil, err
	}
	r.keeper = &redirect.Keeper{
		Kernel: kernel, Plan: plan, Log: log,
		Envoy: func(ctx context.Context) (redirect.Listeners, error) { return redirect.AskListeners(ctx, envoy) },
	}
	about.Parts.Redirection = r.status
	return r, nil
}

// usualListeners are those of an Envoy that cannot be asked yet.
func (m *member) usualListeners() redirect.Listeners {
	l := redirect.Listeners{OutboundTo: 15001, InboundTo: 15006, IPv4: true, IPv6: true}
	for _, s := range m.services() {
		for _, port := range s.Ports {
			l.Services = l.Services.Plus(redirect.PortsOf(uint16(port)))
		}
	}
	return l
}

// during redirects until ctx ends. What it returns ends when nothing new is redirected.
func (r *redirection) during(ctx context.Context, group *errgroup.Group) context.Context {
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

// close takes the rules away, when Envoy is gone.
func (r *redirection) close(ctx context.Context) {
	if r.keeper == nil {
		return
	}
	if err := r.keeper.Close(ctx); err != nil {
		r.log.Error("rules of redirection are left, and match nothing; `mesh-agent redirect remove` takes them away", "error", err)
		return
	}
	_ = os.Remove(r.mark)
}

// clean takes away what an agent has left that was killed, if this one is to redirect nothing.
func (r *redirection) clean(ctx context.Context) {
	table, err := os.ReadFile(r.mark)
	if err != nil {
		return
	}
	removed, err := redirect.RemoveAll(ctx, string(table[:max(0, len(table)-1)]))
	if err != nil {
		r.log.Warn("an earlier agent's rules of redirection could not be taken away; they match nothing", "error", err)
		return
	}
	if len(removed) > 0 {
		r.log.Info("the rules of redirection that an earlier agent has left are gone", "by", removed)
	}
	_ = os.Remove(r.mark)
}

func (r *redirection) status() status.Redirection {
	now := r.keeper.Status()
	s := status.Redirection{By: now.By, Rules: now.Rules, Confirmed: now.Confirmed, Until: now.Until}
	if now.Error != nil {
		s.Trouble = "nothing is redirected, or soon will not be: " + now.Error.Error()
	}
	return s
}
