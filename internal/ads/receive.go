package ads

import (
	"context"
	"errors"
	"io"

	"github.com/pgmesh/pgmesh/internal/ads/wire"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

// receive reads requests until the stream ends. The requests channel is unbuffered, so that gRPC's
// flow control slows down a client that asks faster than it is answered.
func receive(ctx context.Context, form wire.Form, pace *pace) (<-chan *wire.Request, <-chan error) {
	requests, failed := make(chan *wire.Request), make(chan error, 1)
	go func() {
		for {
			r, err := panics.Receive(form.Recv)
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
				r.Done()
				return
			}
		}
	}()
	return requests, failed
}
