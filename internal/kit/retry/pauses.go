package retry

import (
	"cmp"
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Pauses are those between attempts. They grow from the first to the longest, and differ by chance,
// so that many who failed together do not try again together.
type Pauses struct {
	First, Longest time.Duration
	// Growth is how much longer each pause is than the one before; 1.5 times if 0.
	Growth float64
	// Jitter is by which share a pause may be shorter or longer, also the longest; half if 0.
	Jitter float64
}

const (
	defaultGrowth = 1.5
	defaultJitter = 0.5
)

// Backoff returns the pauses one by one, for what cannot be written as a Loop.
func (p Pauses) Backoff() *Backoff {
	return &Backoff{&backoff.ExponentialBackOff{
		InitialInterval: p.First, MaxInterval: max(p.First, p.Longest),
		Multiplier: cmp.Or(p.Growth, defaultGrowth), RandomizationFactor: cmp.Or(p.Jitter, defaultJitter),
	}}
}

// Backoff knows how many pauses there were. Only one goroutine may use it.
type Backoff struct{ of *backoff.ExponentialBackOff }

// Next returns the next pause.
func (b *Backoff) Next() time.Duration { return b.of.NextBackOff() }

// Reset makes the next pause the first one again.
func (b *Backoff) Reset() { b.of.Reset() }

// Wait waits for the next pause, and returns false if ctx ends first.
func (b *Backoff) Wait(ctx context.Context) bool { return wait.For(ctx, b.Next()) }
