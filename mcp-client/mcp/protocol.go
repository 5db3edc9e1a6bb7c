package mcp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Protocol is a form of MCP.
type Protocol string

const (
	// Auto speaks the best form that the server knows: Delta with a pgmesh server, otherwise XDS,
	// otherwise Legacy.
	Auto Protocol = "auto"
	// Delta is the incremental form over xDS. Of the known servers, only pgmesh speaks it well
	// enough.
	Delta Protocol = "delta"
	// XDS is the state of the world over xDS, spoken by istiod, Nacos and Higress.
	XDS Protocol = "xds"
	// Legacy is the first generation, of Istio 1.1 to 1.8, in which the client is the sink of a
	// ResourceSource.
	Legacy Protocol = "legacy"
)

// Protocols lists all protocols, in the order of the help texts.
func Protocols() []Protocol { return []Protocol{Auto, XDS, Delta, Legacy} }

// Set, String and Type implement the interface of a flag.
func (p *Protocol) Set(text string) error {
	if !slices.Contains(Protocols(), Protocol(text)) {
		names := make([]string, len(Protocols()))
		for i, known := range Protocols() {
			names[i] = string(known)
		}
		return fmt.Errorf("unknown protocol %q, expected one of %s", text, strings.Join(names, ", "))
	}
	*p = Protocol(text)
	return nil
}

func (p *Protocol) String() string { return string(*p) }

// Type is the flag's type in the help.
func (p *Protocol) Type() string { return "protocol" }

// Reasons to leave a stream for another form of the protocol. Nothing from that stream was used.
var (
	errForeign = errors.New("the server speaks the incremental protocol, but is not one of pgmesh")
	errSilent  = errors.New("the server accepts the incremental protocol and says nothing")
	errBetter  = errors.New("the server is one of pgmesh, and so should speak the incremental protocol")
)

// choice is the form of the protocol to speak with one server. It steps down from the best form to
// the first that works, and keeps that over reconnects, so as not to probe the server again and
// again. It steps up for two reasons: a state of the world from a pgmesh server, and the loss of a
// legacy stream, since the server may have been replaced.
type choice struct {
	wanted Protocol
	next   Protocol
	// refused: since it was last lost, the server has declined delta, or left it unanswered twice.
	refused bool
	// silent: it left delta unanswered once. It may have been starting.
	silent bool
	// foreign: it speaks delta but is not pgmesh. That is used only if nothing else works.
	foreign bool
	// final: nothing else works.
	final bool
}

func newChoice(wanted Protocol) choice {
	c := choice{wanted: wanted, next: wanted}
	if wanted == Auto {
		c.next = Delta
	}
	return c
}

// probing reports whether the form of the current stream is still to be confirmed.
func (c *choice) probing() bool { return c.wanted == Auto && !c.final }

// checkServer is called with the first response of a stream. It returns the reason to leave the
// stream if another form is better.
func (c *choice) checkServer(pgmesh bool) error {
	switch {
	case !c.probing():
		return nil
	case c.next == Delta && !pgmesh:
		return errForeign
	case c.next == XDS && pgmesh && !c.refused:
		return errBetter
	}
	return nil
}

// retryNow updates the choice after a stream ended with err, and reports whether to retry at once
// in another form.
func (c *choice) retryNow(err error) bool {
	if c.wanted != Auto {
		return false
	}
	switch {
	case errors.Is(err, errForeign):
		c.next, c.foreign = XDS, true
	case errors.Is(err, errSilent):
		c.next, c.refused, c.silent = XDS, c.silent, true
	case errors.Is(err, errBetter):
		c.next = Delta
	case status.Code(err) == codes.Unimplemented:
		return c.unimplemented()
	default:
		c.lost()
		return false
	}
	return true
}

// unimplemented steps one form down. After the last form it starts over, with a pause.
func (c *choice) unimplemented() bool {
	switch {
	case c.next == Delta && !c.final:
		c.next, c.refused = XDS, true
	case c.next == XDS && c.foreign:
		c.next, c.final = Delta, true
	case c.next == XDS:
		c.next = Legacy
	default:
		*c = newChoice(c.wanted)
		return false
	}
	return true
}

// lost resets what the next server at this address may do differently.
func (c *choice) lost() {
	c.refused, c.silent = false, false
	if c.next == Legacy || c.final {
		*c = newChoice(c.wanted)
	}
}
