package machine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
)

// Mode returns how traffic reaches Envoy. By default it follows from --redirect.
func (m *Machine) Mode() bootstrap.Interception {
	switch {
	case m.interception != "":
		return bootstrap.Interception(m.interception)
	case m.Redirect.On:
		return bootstrap.Redirect
	}
	return bootstrap.None
}

// CheckRedirect returns an error for flags that exclude redirection.
func (m *Machine) CheckRedirect() error {
	switch {
	case m.role == string(bootstrap.Gateway):
		return errors.New("--redirect and --role gateway exclude each other: a gateway opens its ports itself")
	case m.Mode() != bootstrap.Redirect && m.Mode() != bootstrap.TProxy:
		return fmt.Errorf("--redirect sends traffic to Envoy, which --interception-mode %s does not expect: leave that flag out, or write REDIRECT or TPROXY", m.Mode())
	case m.Redirect.DNS && len(m.DNS.Loopbacks()) == 0:
		return errors.New("--redirect-dns sends questions to the agent's resolver: switch that on with --dns serve, at a loopback address (--dns-listen)")
	}
	return nil
}

// RedirectPlanner returns the function that plans the redirection of this machine, as it is at each
// call, to an Envoy with these listeners. The status address is the agent's.
func (m *Machine) RedirectPlanner(statusAddress string) func(context.Context, redirect.Listeners) (redirect.Plan, error) {
	o := m.redirectOptions()
	return func(ctx context.Context, l redirect.Listeners) (redirect.Plan, error) {
		return o.Plan(m.environment(ctx, statusAddress), l)
	}
}

// redirectOptions returns the flags completed for this machine.
func (m *Machine) redirectOptions() redirect.Options {
	o := m.Redirect
	o.Mode = redirect.Mode(m.Mode())
	if at := m.DNS.Loopbacks(); len(at) > 0 {
		o.DNSTo = at[0].Port()
	}
	o.EnvoyUser, o.EnvoyGroup = redirect.UserOf(uint32(os.Geteuid())), redirect.GroupOf(uint32(os.Getegid()))
	if account, err := m.EnvoyAccount(); err == nil && account != nil { // a wrong account is reported elsewhere
		o.EnvoyUser, o.EnvoyGroup = redirect.UserOf(account.UID), redirect.GroupOf(account.GID)
	}
	return o
}

// environment returns what the machine depends on now.
func (m *Machine) environment(ctx context.Context, statusAddress string) redirect.Environment {
	s := redirect.Environment{
		SSH: m.ssh.Ports(), Nameservers: redirect.Nameservers(m.DNS.ResolvConf), Addresses: redirect.Addresses(),
		Agent: redirect.PortsOf(portOf(m.Given.Admin), portOf(statusAddress)),
	}
	for _, at := range m.DNS.Listen {
		s.Agent = s.Agent.Plus(redirect.PortsOf(portOf(at)))
	}
	for _, at := range m.DNS.Loopbacks() {
		s.Resolver4, s.Resolver6 = s.Resolver4 || at.Addr().Is4(), s.Resolver6 || at.Addr().Is6()
	}
	servers, _ := m.Servers() // an agent without servers does not run
	for _, server := range servers {
		s.Discovery = append(s.Discovery, resolve(ctx, server)...)
	}
	return s
}

// DefaultListeners stand in for an Envoy that cannot be asked yet.
func (m *Machine) DefaultListeners() redirect.Listeners {
	l := redirect.Listeners{OutboundTo: 15001, InboundTo: 15006, IPv4: true, IPv6: true}
	for _, s := range m.Services() {
		for _, port := range s.Ports {
			l.Services = l.Services.Plus(redirect.PortsOf(uint16(port)))
		}
	}
	return l
}
