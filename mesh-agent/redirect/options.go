package redirect

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"
)

// Options are what people say about redirection, in their words.
type Options struct {
	Table   string
	Mode    Mode
	Timeout time.Duration
	// DNS redirects questions to the machine's nameservers, to DNSTo.
	DNS       bool
	DNSTo     uint16
	Unguarded bool

	OutboundPorts, OutboundExceptPorts []string // ports and ranges, or all, or none
	OutboundCIDRs, OutboundExceptCIDRs []string
	Users, ExceptUsers                 []string
	Groups, ExceptGroups               []string
	OutboundInterfaces                 []string
	InboundPorts, InboundExceptPorts   []string // as above, or services
	InboundCIDRs, InboundExceptCIDRs   []string
	InboundInterfaces                  []string
	ExceptInterfaces                   []string // both ways

	// EnvoyUser and EnvoyGroup are whom Envoy runs as.
	EnvoyUser, EnvoyGroup Account
}

// Words that stand for ports.
const (
	All      = "all"
	None     = "none"
	Services = "services"
)

// shortest and longest are the timeouts that make sense: the agent confirms three times in one.
const (
	shortest = 3 * time.Second
	longest  = 24 * time.Hour
)

// tableName fits all that it becomes part of: chains of iptables have 28 letters.
var tableName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

// Plan is what the options come to on a machine with these surroundings, for an Envoy with these listeners.
func (o Options) Plan(s Surroundings, l Listeners) (Plan, error) {
	p := Plan{
		Table: o.Table, Mode: o.Mode, IPv4: l.IPv4, IPv6: l.IPv6,
		OutboundTo: l.OutboundTo, InboundTo: l.InboundTo, DNSTo: o.DNSTo, Timeout: o.Timeout,
	}
	if !tableName.MatchString(o.Table) {
		return p, fmt.Errorf("--redirect-table %s: write up to sixteen small letters and digits, of which the first is a letter", o.Table)
	}
	if o.Timeout < shortest || o.Timeout > longest {
		return p, fmt.Errorf("--redirect-timeout %s: choose from %s to %s", o.Timeout, shortest, longest)
	}
	s.Agent = s.Agent.Plus(PortsOf(l.OutboundTo, l.InboundTo))
	p.Guards = slices.DeleteFunc(s.guards(o.Unguarded), func(g Guard) bool { return len(g.Ports) == 0 && len(g.To) == 0 })
	if err := errors.Join(o.outbound(&p.Outbound), o.inbound(&p.Inbound, p.unguarded(l.Services))); err != nil {
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

func (o Options) outbound(out *Outbound) error {
	var errs []error
	read := func(flag string, err error) { errs = append(errs, wrap(flag, err)) }
	var err error
	out.Ports, err = readPorts(o.OutboundPorts, nil)
	read("outbound-ports", err)
	out.ExceptPorts, err = ParsePorts(o.OutboundExceptPorts)
	read("outbound-except-ports", err)
	out.To, err = ParsePrefixes(o.OutboundCIDRs)
	out.To = unlessAll(out.To)
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

func (o Options) inbound(in *Inbound, services Ports) error {
	var errs []error
	read := func(flag string, err error) { errs = append(errs, wrap(flag, err)) }
	var err error
	in.Ports, err = readPorts(o.InboundPorts, services)
	read("inbound-ports", err)
	in.ExceptPorts, err = ParsePorts(o.InboundExceptPorts)
	read("inbound-except-ports", err)
	in.From, err = ParsePrefixes(o.InboundCIDRs)
	in.From = unlessAll(in.From)
	read("inbound-cidrs", err)
	in.ExceptFrom, err = ParsePrefixes(o.InboundExceptCIDRs)
	read("inbound-except-cidrs", err)
	in.Interfaces, err = interfaces(o.InboundInterfaces)
	read("inbound-interfaces", err)
	in.ExceptInterfaces, _ = interfaces(o.ExceptInterfaces) // which outbound has complained about
	return errors.Join(errs...)
}

func wrap(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--redirect-%s: %w", flag, err)
}

// readPorts reads ports or one of the words for them; services may be nil where there is no such word.
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

// unlessAll is empty, which means all, for the whole of both families.
func unlessAll(prefixes []netip.Prefix) []netip.Prefix {
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

// interfaceName may end in a star, for all that begin so. The kernel takes 15 letters.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_.:@-]{1,15}\*?$`)

func interfaces(names []string) ([]string, error) {
	for _, n := range names {
		if !interfaceName.MatchString(n) {
			return nil, fmt.Errorf("%q is no network interface: write eth0, or docker* for all that begin so", n)
		}
	}
	return names, nil
}
