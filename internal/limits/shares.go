package limits

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Shares limits how often all clients of a server together may have it do something. Each client
// gets at most a quarter of that, so that one that wants too much only delays itself.
type Shares struct {
	all     *rate.Limiter
	each    *rates
	message func() string

	// Waited is called with how long a client had to wait, and Refused when a client was refused.
	// Either may be nil.
	Waited  func(time.Duration)
	Refused func()
}

const (
	shareOfEach = 4
	// shareWithin is how long a client waits for its turn.
	shareWithin = 5 * time.Second
)

// NewShares returns a budget of an average rate and a burst; nil, which means no limit, for a rate
// of 0. The message says what to do when it is used up.
func NewShares(perSecond float64, burst int, message func() string) *Shares {
	if perSecond <= 0 {
		return nil
	}
	return &Shares{
		all: rate.NewLimiter(rate.Limit(perSecond), max(1, burst)), each: newRates(perSecond/shareOfEach, burst/shareOfEach), message: message,
	}
}

// Take waits for a client's turn to have something done. Weight is how much it counts. If the wait
// would be too long, it fails with a status.
func (s *Shares) Take(ctx context.Context, who string, weight int) error {
	if s == nil || weight == 0 {
		return nil
	}
	began := time.Now()
	for _, l := range []*rate.Limiter{s.each.limiterOf(who), s.all} { // first its own, so that it delays nobody else
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
