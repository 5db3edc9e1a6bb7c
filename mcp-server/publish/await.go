package publish

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrNothing is the error for clients while there is nothing to serve and perhaps nothing soon. The
// reason is for the operator only: it may name hosts and users.
var ErrNothing = status.Error(codes.Unavailable, "this server cannot read what it is to serve, and has nothing saved: go to another one, or come again")

// Await waits until there is something to serve: an empty answer would tell a client that
// everything is gone. Once the source turns out to be away, with nothing saved, it returns
// ErrNothing so that the client tries another server.
func (p *Publisher) Await(ctx context.Context) error {
	news := p.topic.Subscribe()
	defer news.Close()
	heard := p.FirstResult()
	for {
		if has, err := p.loadedOrLost(); has || err != nil {
			return err
		}
		select {
		case <-heard:
			heard = nil // the source is lost; the saved state is about to be served
		case <-news.Changed():
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// loadedOrLost reports whether something is served, and returns ErrNothing if nothing is about to
// be.
func (p *Publisher) loadedOrLost() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded && p.lost != nil && p.primed == nil {
		return false, ErrNothing
	}
	return p.loaded, nil
}
