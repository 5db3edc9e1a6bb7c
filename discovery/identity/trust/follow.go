package trust

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// pauses are those between attempts to reach mcp-server.
var pauses = retry.Pauses{First: 500 * time.Millisecond, Longest: 30 * time.Second}

// Run follows what mcp-server tells, and renews the authority, until the context ends.
func (k *Keeper) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if k.options.Server != nil {
		g.Go(func() error { return k.follow(ctx) })
	}
	if k.options.Own == nil && k.options.Server != nil {
		g.Go(func() error { return k.keepAuthority(ctx) })
	}
	if k.options.Membership != nil {
		g.Go(func() error { return k.followMembership(ctx) })
	}
	return g.Wait()
}

// followMembership takes over the roots that a renewed membership brings.
func (k *Keeper) followMembership(ctx context.Context) error {
	for {
		now := k.options.Membership.Current()
		k.refresh()
		select {
		case <-now.Replaced():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow receives what mcp-server tells. While it is away, what it told last stays in force.
func (k *Keeper) follow(ctx context.Context) error {
	client := identityv1.NewTrustServiceClient(k.options.Server)
	return retry.Loop{
		Pauses: pauses,
		Reason: func(err error, _ time.Duration) {
			k.log.Warn("mcp-server does not tell what the mesh trusts; what it told last stays in force", "error", status.Convert(err).Message())
		},
	}.Forever(ctx, func(func()) error {
		var heard time.Time // of the first
		err := k.watch(ctx, client, func() {
			if heard.IsZero() {
				heard = time.Now()
			}
			k.metrics.connected.Set(1)
		})
		k.metrics.connected.Set(0)
		k.stale.lost()
		switch {
		case heard.IsZero():
			return err
		case time.Since(heard) > pauses.First:
			return retry.ErrAtOnce
		}
		return nil // each stream ends with a certificate of discovery, which is nothing to tell of
	})
}

// watch follows one stream of mcp-server, and calls heard for each message. A message that cannot
// be used changes nothing.
func (k *Keeper) watch(ctx context.Context, client identityv1.TrustServiceClient, heard func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.WatchTrust(ctx, &identityv1.WatchTrustRequest{})
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		heard()
		k.heardOf(answer.GetStaleSince())
		if err := k.learn(answer.GetTrust()); err != nil {
			k.log.Error("what mcp-server says that the mesh trusts cannot be used; what it told before stays in force", "error", err)
		}
	}
}

// heardOf records whether mcp-server itself knows who was revoked.
func (k *Keeper) heardOf(stale *timestamppb.Timestamp) {
	var since time.Time
	if stale != nil {
		since = stale.AsTime()
	}
	switch {
	case !k.stale.told(since):
	case stale != nil:
		k.log.Error("mcp-server cannot read what the mesh trusts: who was revoked since is trusted here", "since", stampOf(since))
	default:
		k.log.Info("mcp-server can read what the mesh trusts again")
	}
}

// learn takes over what mcp-server tells.
func (k *Keeper) learn(told *identityv1.Trust) error {
	if k.options.Membership != nil {
		if err := k.options.Membership.Learn(told); err != nil {
			return err
		}
		k.refresh()
		return nil
	}
	if told.GetTrustDomain() == "" {
		return errors.New("it has no trust domain")
	}
	k.mu.Lock()
	k.told = told
	k.mu.Unlock()
	k.refresh()
	return k.writeTrust(told)
}
