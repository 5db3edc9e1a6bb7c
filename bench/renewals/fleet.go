package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

// joining is how many machines join at the same time.
const joining = 32

// fleet is the machines.
type fleet struct {
	members []*membership.Membership
	ups     []*upstream.Upstream
	group   *errgroup.Group
	cancel  context.CancelFunc

	expired atomic.Int64 // renewals after the certificate expired
	failed  atomic.Int64

	mu   sync.Mutex
	took []time.Duration // of each renewal
	left []time.Duration // the rest of the previous certificate's life
	at   []time.Time
}

// fleet lets all machines join, and then renew until it is stopped.
func (m *mesh) fleet(ctx context.Context) (*fleet, error) {
	text, err := m.stack.JoinToken(ctx, "shop/cart", "--uses", strconv.Itoa(m.options.machines))
	if err != nil {
		return nil, err
	}
	token, err := jointoken.Parse(text)
	if err != nil {
		return nil, err
	}
	f := &fleet{members: make([]*membership.Membership, m.options.machines)}
	begun := time.Now()
	joins, joinCtx := errgroup.WithContext(ctx)
	joins.SetLimit(joining)
	for i := range f.members {
		joins.Go(func() (err error) {
			o := membership.Options{Folder: filepath.Join(m.dir, "machines", strconv.Itoa(i)), Is: join.IsMachine}
			if err := os.MkdirAll(o.Folder, 0o700); err != nil {
				return err
			}
			f.members[i], err = membership.Join(joinCtx, o, join.ByToken([]string{m.stack.XDS}, token))
			return err
		})
	}
	if err := joins.Wait(); err != nil {
		return nil, fmt.Errorf("a machine does not join: %w", err)
	}
	fmt.Fprintf(os.Stderr, "%d machines have joined within %s\n", len(f.members), time.Since(begun).Round(time.Millisecond))
	ctx, f.cancel = context.WithCancel(ctx)
	f.group, ctx = errgroup.WithContext(ctx)
	for _, member := range f.members {
		if err := f.live(ctx, member, m.stack.XDS); err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

// live does what an agent does for its certificate.
func (f *fleet) live(ctx context.Context, member *membership.Membership, address string) error {
	u, err := upstream.Dial(upstream.Options{Addresses: []string{address}, Credentials: upstream.Member(member)})
	if err != nil {
		return err
	}
	f.ups = append(f.ups, u)
	f.group.Go(func() error { return member.Run(ctx, f.timed(member, join.ByCertificate(u, ""))) })
	f.group.Go(func() error { return join.Follow(ctx, u, member, slog.New(slog.DiscardHandler)) })
	return nil
}

// timed measures each renewal.
func (f *fleet) timed(member *membership.Membership, ask membership.Ask) membership.Ask {
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		begun := time.Now()
		granted, err := ask(ctx, csr)
		if ctx.Err() == nil {
			f.note(begun, time.Until(member.Current().NotAfter()), err)
		}
		return granted, err
	}
}

func (f *fleet) note(begun time.Time, left time.Duration, err error) {
	if left <= 0 {
		f.expired.Add(1)
	}
	if err != nil {
		f.failed.Add(1)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took, f.left, f.at = append(f.took, time.Since(begun)), append(f.left, left), append(f.at, begun)
}

// outdated counts the machines whose certificate has expired.
func (f *fleet) outdated() (n int) {
	for _, m := range f.members {
		if time.Now().After(m.Current().NotAfter()) {
			n++
		}
	}
	return n
}

func (f *fleet) stop() {
	f.cancel()
	_ = f.group.Wait() // ends with the context
	for _, u := range f.ups {
		u.Close()
	}
}
