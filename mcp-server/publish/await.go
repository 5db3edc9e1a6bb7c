package publish

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrNothing is what clients are told who come while there is nothing to serve, and nothing may come soon. Why that is, is for the
// operator: it names hosts and users.
var ErrNothing = status.Error(codes.Unavailable, "this server cannot read what it is to serve, and has nothing saved: go to another one, or come again")

// Await returns when there is something to serve. An empty answer would tell a client that all it has is gone, so it has to wait while
// the source is being read; but once the source was found to be away it does better elsewhere, and that is the error.
func (p *Publisher) Await(ctx context.Context) error {
	news := p.topic.Subscribe()
	defer news.Close()
	heard := p.Heard()
	for {
		if has, err := p.hasSomething(); has || err != nil {
			return err
		}
		select {
		case <-heard:
			heard = nil // it was lost, and what was saved is about to be served
		case <-news.Changed():
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (p *Publisher) hasSomething() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded && p.lost != nil && p.primed == nil {
		return false, ErrNothing
	}
	return p.loaded, nil
}
