// Package redirect makes the kernel send a machine's connections through Envoy, transparently to
// its programs.
//
// A Plan says what is redirected. It consists of rules in the order in which they match, which are
// rendered as a text for nft or iptables-restore and applied as one transaction. The rules match
// nothing unless they were confirmed recently. The kernel measures that time, so redirection ends
// by itself when the agent or Envoy is gone.
package redirect

import (
	"net/netip"
	"time"
)

// Mode is how inbound connections are handed to Envoy. Outbound ones always use Redirect.
type Mode string

// Redirect changes the destination to Envoy's port, and Envoy asks the kernel for the original one.
// TProxy leaves packets unchanged, so that applications see their clients' addresses.
const (
	Redirect Mode = "REDIRECT"
	TProxy   Mode = "TPROXY"
)

// Plan describes what is redirected on a machine.
type Plan struct {
	// Table is the name of nft's table and the prefix of iptables' chains.
	Table      string
	Mode       Mode
	IPv4, IPv6 bool
	// OutboundTo and InboundTo are Envoy's ports, and DNSTo is the port of the agent's resolver.
	OutboundTo, InboundTo, DNSTo uint16

	Own      Own
	Outbound Outbound
	Inbound  Inbound
	// Nameservers are those whose queries go to the agent's resolver. If empty, DNS is not
	// redirected.
	Nameservers []netip.Addr
	Guards      []Guard

	// Timeout is how long a confirmation lasts.
	Timeout time.Duration
}

// Own has the accounts that identify Envoy, whose connections are not redirected again.
type Own struct{ Users, Groups []Account }

// Account is a user or a group.
type Account struct {
	ID   uint32
	Name string
}

// Outbound selects connections of the machine's programs. Each list selects, an empty one
// everything, and its Except list excludes. Connections to the machine itself are never selected.
type Outbound struct {
	Ports, ExceptPorts           Ports
	To, ExceptTo                 []netip.Prefix
	Users, ExceptUsers           []Account
	Groups, ExceptGroups         []Account
	Interfaces, ExceptInterfaces []string
}

// Inbound selects connections to the machine's programs like Outbound, but empty Ports select none.
// Traffic that the machine forwards, such as to containers, is never selected.
type Inbound struct {
	Ports, ExceptPorts           Ports
	From, ExceptFrom             []netip.Prefix
	Interfaces, ExceptInterfaces []string
}

// Guard is something that is never redirected.
type Guard struct {
	Why   string
	Out   bool // applies to outbound connections
	In    bool // applies to inbound connections
	Ports Ports
	To    []netip.Prefix // only to these; empty means to all
}
