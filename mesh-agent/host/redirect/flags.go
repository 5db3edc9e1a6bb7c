package redirect

import (
	"time"

	"github.com/spf13/pflag"
)

// Flags declares the flags of redirection.
func (o *Options) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.On, "redirect", false, "send connections of this machine's programs through Envoy, without their knowledge; see docs/redirection.md")
	flags.StringVar(&o.By, "redirect-by", Auto, "program that changes the kernel's rules: nft, iptables, iptables-nft, iptables-legacy, or auto")
	TableFlag(flags, &o.Table)
	flags.DurationVar(&o.Timeout, "redirect-timeout", 30*time.Second, "how long the rules go on to count when the agent and Envoy are no longer known to be well")
	flags.BoolVar(&o.DNS, "redirect-dns", false, "send questions to the machine's nameservers to the agent's resolver")
	flags.BoolVar(&o.Unguarded, "redirect-unguarded", false, "redirect also SSH, discovery, nameservers and the cloud's metadata, where they are among what is chosen")
	for _, list := range []struct {
		value       *[]string
		name, usage string
		standard    []string
	}{
		{&o.OutboundPorts, "outbound-ports", "ports that go out through Envoy: 80, 8000-8100, all or none", []string{All}},
		{&o.OutboundExceptPorts, "outbound-except-ports", "ports that do not, of those", nil},
		{&o.OutboundCIDRs, "outbound-cidrs", "addresses, or ranges of them, that go out through Envoy: 240.240.0.0/16 (default: all)", nil},
		{&o.OutboundExceptCIDRs, "outbound-except-cidrs", "addresses that do not, of those", nil},
		{&o.OutboundInterfaces, "outbound-interfaces", "network interfaces whose traffic goes out through Envoy: eth0, bond* (default: all)", nil},
		{&o.Users, "users", "users whose connections go out through Envoy, by name or number (default: all)", nil},
		{&o.ExceptUsers, "except-users", "users whose connections do not", nil},
		{&o.Groups, "groups", "groups whose programs' connections go out through Envoy (default: all)", nil},
		{&o.ExceptGroups, "except-groups", "groups whose programs' connections do not", nil},
		{&o.InboundPorts, "inbound-ports", "ports that come in through Envoy: 8080, all, none, or services, which are those that the mesh knows as services of this machine", []string{Services}},
		{&o.InboundExceptPorts, "inbound-except-ports", "ports that do not, of those", nil},
		{&o.InboundCIDRs, "inbound-cidrs", "senders that come in through Envoy (default: all)", nil},
		{&o.InboundExceptCIDRs, "inbound-except-cidrs", "senders that do not, of those", nil},
		{&o.InboundInterfaces, "inbound-interfaces", "network interfaces whose traffic comes in through Envoy (default: all)", nil},
		{&o.ExceptInterfaces, "except-interfaces", "network interfaces that are left alone, in and out: docker*", nil},
	} {
		flags.StringSliceVar(list.value, "redirect-"+list.name, list.standard, list.usage)
	}
}

// TableFlag declares --redirect-table, which is all that commands on the rules of others need.
func TableFlag(flags *pflag.FlagSet, table *string) {
	flags.StringVar(table, "redirect-table", "pgmesh", "name of the rules: of nft's table, and of the chains of iptables")
}
