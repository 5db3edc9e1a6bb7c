// Package redirect has the kernel send a machine's connections through Envoy, without their programs' knowledge.
//
// A Plan says what is redirected. It is made of rules, in words and in the order in which they count, which are rendered as one text for nft
// or iptables-restore, and applied as one transaction. The rules match nothing unless somebody has confirmed them recently: the
// kernel counts the time, so that a machine whose agent or Envoy is gone is as if nothing had been redirected, whoever is left to notice.
package redirect

import (
	"net/netip"
	"time"
)

// Mode is how connections that come in are handed to Envoy. What goes out is always handed over by the first.
type Mode string

// Redirect changes the destination to Envoy's port, and Envoy asks the kernel for the original one. TProxy leaves the packets as they are, so
// that the application sees its clients' own addresses.
const (
	Redirect Mode = "REDIRECT"
	TProxy   Mode = "TPROXY"
)

// Plan is what is redirected on a machine, and what is not.
type Plan struct {
	// Table names the table of nft, and the chains of iptables.
	Table      string
	Mode       Mode
	IPv4, IPv6 bool
	// OutboundTo and InboundTo are Envoy's ports, DNSTo is the port of the agent's resolver.
	OutboundTo, InboundTo, DNSTo uint16

	Own      Own
	Outbound Outbound
	Inbound  Inbound
	// Nameservers are those whose queries are redirected to the agent's resolver; none: DNS is left alone.
	Nameservers []netip.Addr
	Guards      []Guard

	// Timeout is how long the rules count after a confirmation.
	Timeout time.Duration
}

// Own says by which accounts Envoy is known: what it sends is not redirected to it again.
type Own struct{ Users, Groups []Account }

// Account is a user or a group.
type Account struct {
	ID   uint32
	Name string
}

// Outbound chooses among the connections of the machine's programs. Of each sort the former say which, none meaning all, and the latter
// which not. Connections to the machine itself are never chosen.
type Outbound struct {
	Ports, ExceptPorts           Ports
	To, ExceptTo                 []netip.Prefix
	Users, ExceptUsers           []Account
	Groups, ExceptGroups         []Account
	Interfaces, ExceptInterfaces []string
}

// Inbound chooses among the connections to the machine's programs, as Outbound does, but that no ports mean none. What the machine passes
// on to others, such as containers, is never chosen.
type Inbound struct {
	Ports, ExceptPorts           Ports
	From, ExceptFrom             []netip.Prefix
	Interfaces, ExceptInterfaces []string
}

// Guard is something that is never redirected, whatever is chosen.
type Guard struct {
	Why   string
	Out   bool // counts for what goes out
	In    bool // counts for what comes in
	Ports Ports
	To    []netip.Prefix // only to these; none: to all
}
