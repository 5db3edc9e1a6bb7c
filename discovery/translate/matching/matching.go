// Package matching makes conditions for Envoy's generic matcher, on what it knows of a datagram: where
// it comes from, and where it goes.
package matching

import (
	"strconv"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	hashingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/consistent_hashing/v3"
	ipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/ip/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

type predicate = xdsmatcherv3.Matcher_MatcherList_Predicate

// Condition is what Envoy asks of a datagram, or whether it holds of all: Envoy has no words for that.
type Condition struct {
	asked *predicate // nil for a condition that does not depend on the datagram
	holds bool
}

// Known is a condition that holds of all datagrams, or of none.
func Known(holds bool) Condition { return Condition{holds: holds} }

// Holds reports whether the condition holds of all datagrams.
func (c Condition) Holds() bool { return c.asked == nil && c.holds }

// Fails reports whether the condition holds of no datagram.
func (c Condition) Fails() bool { return c.asked == nil && !c.holds }

// Not is the opposite.
func Not(c Condition) Condition {
	if c.asked == nil {
		return Known(!c.holds)
	}
	return Condition{asked: &predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: c.asked}}}
}

// All holds if all of the conditions do.
func All(all ...Condition) Condition {
	return joined(all, false, func(list *xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList) *predicate {
		return &predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_AndMatcher{AndMatcher: list}}
	})
}

// Any holds if one of the conditions does.
func Any(all ...Condition) Condition {
	return joined(all, true, func(list *xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList) *predicate {
		return &predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_OrMatcher{OrMatcher: list}}
	})
}

// joined joins conditions of which one that is known to be so decides. Those that are known to be
// otherwise do not count.
func joined(all []Condition, decides bool, join func(*xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList) *predicate) Condition {
	list := &xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList{}
	for _, c := range all {
		switch {
		case c.asked != nil:
			list.Predicate = append(list.Predicate, c.asked)
		case c.holds == decides:
			return c
		}
	}
	switch len(list.GetPredicate()) {
	case 0:
		return Known(!decides)
	case 1: // Envoy wants two at least
		return Condition{asked: list.GetPredicate()[0]}
	default:
		return Condition{asked: join(list)}
	}
}

// Either holds if exactly one of two conditions does.
func Either(a, b Condition) Condition { return Any(All(a, Not(b)), All(Not(a), b)) }

// SourceIn holds if the datagram comes from a range of addresses.
func SourceIn(block *corev3.CidrRange) Condition {
	return in("source-ip", &networkv3.SourceIPInput{}, block)
}

// DestinationIn holds if the datagram came to a range of addresses.
func DestinationIn(block *corev3.CidrRange) Condition {
	return in("destination-ip", &networkv3.DestinationIPInput{}, block)
}

// DestinationPort holds if the datagram came to a port.
func DestinationPort(port uint32) Condition {
	return asked("destination-port", &networkv3.DestinationPortInput{}, &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Matcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &xdsmatcherv3.StringMatcher{
			MatchPattern: &xdsmatcherv3.StringMatcher_Exact{Exact: strconv.FormatUint(uint64(port), 10)},
		}},
	})
}

// AddressDraw holds of half of all addresses that datagrams come from: which half, the seed says.
func AddressDraw(seed uint64) Condition { return draw("source-ip", &networkv3.SourceIPInput{}, seed) }

// PortDraw holds of half of all ports that datagrams come from: which half, the seed says.
func PortDraw(seed uint64) Condition { return draw("source-port", &networkv3.SourcePortInput{}, seed) }

func draw(name string, input proto.Message, seed uint64) Condition {
	return asked(name, input, custom("consistent-hashing", &hashingv3.ConsistentHashing{Modulo: 2, Threshold: 1, Seed: seed}))
}

func in(name string, input proto.Message, block *corev3.CidrRange) Condition {
	return asked(name, input, custom("ip", &ipv3.Ip{CidrRanges: []*corev3.CidrRange{block}, StatPrefix: name}))
}

func custom(name string, matcher proto.Message) *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate {
	return &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Matcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch{CustomMatch: extension(name, matcher)},
	}
}

func asked(name string, input proto.Message, by *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate) Condition {
	by.Input = extension(name, input)
	return Condition{asked: &predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: by}}}
}

func extension(name string, config proto.Message) *xdscorev3.TypedExtensionConfig {
	return &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: message.Pack(config)}
}
