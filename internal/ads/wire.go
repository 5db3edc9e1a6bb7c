package ads

import (
	"context"
	"errors"
	"io"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

// request is a request of either form of the protocol.
type request struct {
	node    *corev3.Node
	typeURL string
	nonce   string
	failure *status.Status // set in a NACK

	// subscribe and unsubscribe change the wanted names (delta).
	subscribe, unsubscribe []string
	// names are all wanted names (state of the world).
	names []string
	// held has the versions that a client has from an earlier stream (delta).
	held map[string]string

	// release releases the memory reserved for the request and what is made of it. It may be nil.
	release func()
}

// done releases a request that is not processed.
func (r *request) done() {
	if r.release != nil {
		r.release()
	}
}

// response is one message to a client about one type.
type response struct {
	typeURL, revision, nonce string
	resources                []*Resource
	removed                  []string
}

// wire is one of the two forms of the protocol.
type wire interface {
	recv() (*request, error)
	encode(*response) *message
	send(*message) error
	// incremental reports whether responses carry only changes.
	incremental() bool
}

// receive reads requests until the stream ends. The requests channel is unbuffered, so that gRPC's flow
// control slows down a client that asks faster than it is answered.
func receive(ctx context.Context, w wire, pace *pace) (<-chan *request, <-chan error) {
	requests, failed := make(chan *request), make(chan error, 1)
	go func() {
		for {
			r, err := panics.Receive(w.recv)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if r == nil {
				failed <- err
				return
			}
			pace.keep(ctx)
			select {
			case requests <- r:
			case <-ctx.Done():
				r.done()
				return
			}
		}
	}()
	return requests, failed
}
