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
	// Auto speaks the best form that the server knows: Delta with a pgmesh server, else XDS, else Legacy.
	Auto Protocol = "auto"
	// Delta is the incremental form over xDS. Of the servers that are known, only pgmesh speaks it well enough.
	Delta Protocol = "delta"
	// XDS is the state of the world over xDS, as istiod, Nacos and Higress speak it.
	XDS Protocol = "xds"
	// Legacy is the first generation, of Istio 1.1 to 1.8, in which the client is the sink of a ResourceSource.
	Legacy Protocol = "legacy"
)

// Protocols lists all of them, in the order in which help texts do.
func Protocols() []Protocol { return []Protocol{Auto, XDS, Delta, Legacy} }

// Set, String and Type make a protocol a flag.
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

// Type names the flag's values in the help.
func (p *Protocol) Type() string { return "protocol" }

// Reasons to leave a stream for another form of the protocol. Nothing was taken in from that stream.
var (
	errForeign = errors.New("the server speaks the incremental protocol, but is not one of pgmesh")
	errSilent  = errors.New("the server accepts the incremental protocol and says nothing")
	errBetter  = errors.New("the server is one of pgmesh, and so should speak the incremental protocol")
)

// choice decides which form to speak with one server. It goes down from the best to the first that works, and stays there:
// over a reconnect too, so that a server is not asked again and again for what it does not have. It goes up when there is a
// reason to: a state of the world that comes from a pgmesh server, or the loss of a legacy stream, since who restarts a
// server of the first generation may have replaced it.
type choice struct {
	wanted Protocol
	next   Protocol
	// refused: the server said that it does not speak delta, or left it unanswered twice, and has not been lost since.
	refused bool
	// silent: it left delta unanswered once. It may have been loading what it serves.
	silent bool
	// foreign: it speaks delta and is not pgmesh. That is used only if there is nothing else.
	foreign bool
	// settled: there is nothing else.
	settled bool
}

func newChoice(wanted Protocol) choice {
	c := choice{wanted: wanted, next: wanted}
	if wanted == Auto {
		c.next = Delta
	}
	return c
}

// probing tells whether the server is still to show that the form of this stream is the right one.
func (c *choice) probing() bool { return c.wanted == Auto && !c.settled }

// judge looks at the first response of a stream, and returns the reason to leave the stream if another form is better.
func (c *choice) judge(pgmesh bool) error {
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

// goesOn takes in why a stream ended, and tells whether the server is to be asked at once in another form.
func (c *choice) goesOn(err error) bool {
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

// unimplemented goes one form down. Below the last begins the first, after a pause.
func (c *choice) unimplemented() bool {
	switch {
	case c.next == Delta && !c.settled:
		c.next, c.refused = XDS, true
	case c.next == XDS && c.foreign:
		c.next, c.settled = Delta, true
	case c.next == XDS:
		c.next = Legacy
	default:
		*c = newChoice(c.wanted)
		return false
	}
	return true
}

// lost prepares for the server that will answer next at this address, which may be another.
func (c *choice) lost() {
	c.refused, c.silent = false, false
	if c.next == Legacy || c.settled {
		*c = newChoice(c.wanted)
	}
}
