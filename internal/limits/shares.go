package limits

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Shares is how often all clients of a server together may have it do something. Of that each has a quarter at most, so that one that
// wants too much waits for itself.
type Shares struct {
	all     *rate.Limiter
	each    *rates
	message func() string

	// Waited hears for how long somebody had to wait, and Refused that somebody was turned away. They may be nil.
	Waited  func(time.Duration)
	Refused func()
}

const (
	shareOfEach = 4
	// shareWithin is how long somebody waits for its turn.
	shareWithin = 5 * time.Second
)

// NewShares returns a budget of so many a second, on average, and so many at once; nil, which is no limit, for 0. The message says what to do about it.
func NewShares(perSecond float64, burst int, message func() string) *Shares {
	if perSecond <= 0 {
		return nil
	}
	return &Shares{
		all: rate.NewLimiter(rate.Limit(perSecond), max(1, burst)), each: newRates(perSecond/shareOfEach, burst/shareOfEach), message: message,
	}
}

// Take waits for the turn of a client to have something done that counts so much. If that would take too long it fails with a status.
func (s *Shares) Take(ctx context.Context, who string, weight int) error {
	if s == nil || weight == 0 {
		return nil
	}
	began := time.Now()
	for _, l := range []*rate.Limiter{s.each.limiterOf(who), s.all} { // first its own, so that it is in nobody's way
		if err := s.await(ctx, l, min(weight, l.Burst())); err != nil {
			return err
		}
	}
	if waited := time.Since(began); s.Waited != nil && waited > time.Millisecond {
		s.Waited(waited)
	}
	return nil
}

func (s *Shares) await(ctx context.Context, l *rate.Limiter, weight int) error {
	turn := l.ReserveN(time.Now(), weight)
	delay := turn.Delay()
	if delay == 0 {
		return nil
	}
	if delay > shareWithin {
		turn.Cancel()
		if s.Refused != nil {
			s.Refused()
		}
		return exhausted(delay, s.message())
	}
	if !wait.For(ctx, delay) {
		turn.Cancel()
		return ctx.Err()
	}
	return nil
}
