// Package wire has the two forms of xDS, delta and state of the world, as they are on the wire: it
// decodes requests and encodes responses.
package wire

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// Form is one of the two forms of the protocol, on one stream.
type Form interface {
	Recv() (*Request, error)
	Encode(*Response) *Message
	Send(*Message) error
	// Incremental reports whether responses carry only changes.
	Incremental() bool
}

// Request is a request of either form of the protocol.
type Request struct {
	Node    *corev3.Node
	TypeURL string
	Nonce   string
	Failure *status.Status // set in a NACK

	// Subscribe and Unsubscribe change the wanted names (delta).
	Subscribe, Unsubscribe []string
	// Names are all wanted names (state of the world).
	Names []string
	// Held has the versions that a client has from an earlier stream (delta).
	Held map[string]string

	// Release releases the memory reserved for the request and what is made of it. It may be nil.
	Release func()
}

// Done releases a request that is not processed.
func (r *Request) Done() {
	if r.Release != nil {
		r.Release()
	}
}
