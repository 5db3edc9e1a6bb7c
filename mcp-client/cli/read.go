package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// errEnough ends a client that has delivered what was wanted.
var errEnough = errors.New("enough")

// snapshot reads all resources of some kinds, sorted as they are printed.
func (s *server) snapshot(ctx context.Context, ks []*kinds.Kind) ([]*kinds.Resource, error) {
	var resources []*kinds.Resource
	err := s.follow(ctx, ks, nil, func(b mcp.Batch) error {
		for _, c := range b.Changes {
			if c.Resource != nil {
				resources = append(resources, c.Resource)
			}
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		return nil, err
	}
	slices.SortFunc(resources, func(a, b *kinds.Resource) int { return compare(a.Key(), b.Key()) })
	return resources, nil
}

// compare orders by the registry's kinds, then by namespace and name.
func compare(a, b kinds.Key) int {
	return cmp.Or(
		cmp.Compare(rank[a.Kind], rank[b.Kind]),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}

var rank = func() map[*kinds.Kind]int {
	ranks := map[*kinds.Kind]int{}
	for i, k := range kinds.All() {
		ranks[k] = i
	}
	return ranks
}()

// link is told how the streams to the server fare, which the client library mends by itself.
type link struct {
	up   func()
	down func(error)
}

// follow hands the state of some kinds, and then each change, to apply, until that returns an error or the context ends. A
// server that is lost before it has given the state is an error; one that is lost later is waited for, and the losses are
// told to later, if that is not nil.
func (s *server) follow(ctx context.Context, ks []*kinds.Kind, later *link, apply func(mcp.Batch) error) error {
	credentials, err := s.credentials()
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	deadline := time.AfterFunc(s.timeout, func() { fail(s.silent()) })
	defer deadline.Stop()

	synced := false
	client := mcp.New(mcp.Config{
		Targets: []string{s.address}, Kinds: ks, Name: "mcp-client", DialOptions: credentials,
		Up: func(mcp.Status) {
			if synced && later != nil {
				later.up()
			}
		},
		Down: func(err error) {
			if !synced {
				fail(s.explain(err))
			} else if later != nil {
				later.down(err)
			}
		},
	})
	err = client.Run(ctx, func(b mcp.Batch) error {
		synced = true
		deadline.Stop()
		return apply(b)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
