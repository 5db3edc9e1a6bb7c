package redirect

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"
)

// Options are the flags of redirection, and what Envoy and the resolver of the machine add.
type Options struct {
	On      bool
	By      string // the program that changes the rules, one of Programs
	Table   string
	Mode    Mode
	Timeout time.Duration
	// DNS redirects queries to the machine's nameservers, to DNSTo.
	DNS       bool
	DNSTo     uint16
	Unguarded bool

	OutboundPorts, OutboundExceptPorts []string // ports and ranges, all, or none
	OutboundCIDRs, OutboundExceptCIDRs []string
	Users, ExceptUsers                 []string
	Groups, ExceptGroups               []string
	OutboundInterfaces                 []string
	InboundPorts, InboundExceptPorts   []string // the same, or services
	InboundCIDRs, InboundExceptCIDRs   []string
	InboundInterfaces                  []string
	ExceptInterfaces                   []string // in both directions

	// EnvoyUser and EnvoyGroup are the accounts that Envoy runs as.
	EnvoyUser, EnvoyGroup Account
}

// Words that stand for ports.
const (
	All      = "all"
	None     = "none"
	Services = "services"
)

// Bounds of the timeout. The agent confirms three times in one timeout.
const (
	minTimeout = 3 * time.Second
	maxTimeout = 24 * time.Hour
)

// tableName fits everything it becomes part of: iptables allows 28 letters for a chain.
var tableName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

// Plan makes the plan for a machine in this environment and an Envoy with these listeners.
func (o Options) Plan(s Environment, l Listeners) (Plan, error) {
	p := Plan{
		Table: o.Table, Mode: o.Mode, IPv4: l.IPv4, IPv6: l.IPv6,
		OutboundTo: l.OutboundTo, InboundTo: l.InboundTo, DNSTo: o.DNSTo, Timeout: o.Timeout,
	}
	if !tableName.MatchString(o.Table) {
		return p, fmt.Errorf("--redirect-table %s: write up to sixteen small letters and digits, of which the first is a letter", o.Table)
	}
	if o.Timeout < minTimeout || o.Timeout > maxTimeout {
		return p, fmt.Errorf("--redirect-timeout %s: choose from %s to %s", o.Timeout, minTimeout, maxTimeout)
	}
	s.Agent = s.Agent.Plus(PortsOf(l.OutboundTo, l.InboundTo))
	p.Guards = slices.DeleteFunc(s.guards(o.Unguarded), func(g Guard) bool { return len(g.Ports) == 0 && len(g.To) == 0 })
	if err := errors.Join(o.outbound(&p.Outbound), o.inbound(&p.Inbound, p.withoutGuarded(l.Services))); err != nil {
		return p, err
	}
	if o.DNS {
		if p.Nameservers = s.redirectable(); len(p.Nameservers) == 0 {
			return p, errors.New("--redirect-dns: /etc/resolv.conf names no nameserver whose questions could be redirected: " +
				"those at IPv4 addresses take --dns-listen 127.0.0.1:15053, and those at IPv6 addresses [::1]:15053")
		}
	}
	if len(p.Outbound.Ports) == 0 && len(p.Inbound.Ports) == 0 && !slices.Contains(o.InboundPorts, Services) && !o.DNS {
		return p, errors.New("there is nothing to redirect: choose ports with --redirect-outbound-ports or --redirect-inbound-ports, or leave --redirect out")
	}
	var err error
	if p.Own, err = p.Outbound.own(o.EnvoyUser, o.EnvoyGroup); err != nil {
		return p, err
	}
	return p, p.checkGuards()
}

// outbound reads what the flags say of connections from this machine. Its error has every mistake.
func (o Options) outbound(out *Outbound) error {
	var errs []error
	read := func(flag string, err error) { errs = append(errs, wrap(flag, err)) }
	var err error
	out.Ports, err = readPorts(o.OutboundPorts, nil)
	read("outbound-ports", err)
	out.ExceptPorts, err = ParsePorts(o.OutboundExceptPorts)
	read("outbound-except-ports", err)
	out.To, err = ParsePrefixes(o.OutboundCIDRs)
	out.To = nilIfAll(out.To)
	read("outbound-cidrs", err)
	out.ExceptTo, err = ParsePrefixes(o.OutboundExceptCIDRs)
	read("outbound-except-cidrs", err)
	out.Users, err = lookupAll(o.Users, LookupUser)
	read("users", err)
	out.ExceptUsers, err = lookupAll(o.ExceptUsers, LookupUser)
	read("except-users", err)
	out.Groups, err = lookupAll(o.Groups, LookupGroup)
	read("groups", err)
	out.ExceptGroups, err = lookupAll(o.ExceptGroups, LookupGroup)
	read("except-groups", err)
	out.Interfaces, err = interfaces(o.OutboundInterfaces)
	read("outbound-interfaces", err)
	out.ExceptInterfaces, err = interfaces(o.ExceptInterfaces)
	read("except-interfaces", err)
	return errors.Join(errs...)
}

// inbound reads what they say of connections to it; services are the ports of its services.
func (o Options) inbound(in *Inbound, services Ports) error {
	var errs []error
	read := func(flag string, err error) { errs = append(errs, wrap(flag, err)) }
	var err error
	in.Ports, err = readPorts(o.InboundPorts, services)
	read("inbound-ports", err)
	in.ExceptPorts, err = ParsePorts(o.InboundExceptPorts)
	read("inbound-except-ports", err)
	in.From, err = ParsePrefixes(o.InboundCIDRs)
	in.From = nilIfAll(in.From)
	read("inbound-cidrs", err)
	in.ExceptFrom, err = ParsePrefixes(o.InboundExceptCIDRs)
	read("inbound-except-cidrs", err)
	in.Interfaces, err = interfaces(o.InboundInterfaces)
	read("inbound-interfaces", err)
	in.ExceptInterfaces, _ = interfaces(o.ExceptInterfaces) // outbound has reported the error
	return errors.Join(errs...)
}

func wrap(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--redirect-%s: %w", flag, err)
}

// readPorts parses ports or the words for them; services may be nil where that word is not allowed.
func readPorts(words []string, services Ports) (Ports, error) {
	var out Ports
	for _, word := range words {
		switch word {
		case All, "*":
			out = out.Plus(AllPorts)
		case None, "":
		case Services:
			out = out.Plus(services)
		default:
			ports, err := ParsePorts([]string{word})
			if err != nil {
				return nil, fmt.Errorf("%w, or %s, or %s", err, All, None)
			}
			out = out.Plus(ports)
		}
	}
	return out, nil
}

// nilIfAll returns nil, which means all, for the whole of both families.
func nilIfAll(prefixes []netip.Prefix) []netip.Prefix {
	whole := 0
	for _, p := range prefixes {
		if p.Bits() == 0 {
			whole++
		}
	}
	if whole == len([]family{ipv4, ipv6}) {
		return nil
	}
	return prefixes
}

// interfaceName may end in a wildcard. The kernel allows 15 letters.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_.:@-]{1,15}\*?$`)

func interfaces(names []string) ([]string, error) {
	for _, n := range names {
		if !interfaceName.MatchString(n) {
			return nil, fmt.Errorf("%q is no network interface: write eth0, or docker* for all that begin so", n)
		}
	}
	return names, nil
}
