package ads

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Limits keep one client from taking what the others need, and all of them together from taking more than the machine has. A zero is no
// limit.
type Limits struct {
	Pushes       int     // streams that work something out, or send it, at the same time
	Arrivals     float64 // new streams a second, on average
	ArrivalBurst int
	Waiting      int     // new streams that may wait for their turn
	Requests     float64 // requests a second of a stream, on average
	RequestBurst int
	Names        int // names that a stream may ask for
}

// Flags declares the flags.
func (l *Limits) Flags(f *pflag.FlagSet) {
	f.IntVar(&l.Pushes, "max-concurrent-pushes", 100, "how many proxies are sent something at the same time; 0 for any number")
	f.Float64Var(&l.Arrivals, "max-proxy-rate", 400, "how many proxies may connect a second, on average; further ones wait for their turn; 0 for any number")
	f.IntVar(&l.ArrivalBurst, "max-proxy-burst", 200, "how many proxies may connect at once")
	f.IntVar(&l.Waiting, "max-waiting-proxies", 4000, "how many proxies may wait for their turn to connect; further ones are told to come back; 0 for any number")
	f.Float64Var(&l.Requests, "max-request-rate", 500, "how many requests a proxy may make a second, on average; a faster one is slowed down; 0 for any number")
	f.IntVar(&l.RequestBurst, "max-request-burst", 2000, "how many requests a proxy may make at once")
	f.IntVar(&l.Names, "max-proxy-names", 200_000, "how many resources a proxy may ask for by name; 0 for any number")
}

// The limits, as observers are told of them.
const (
	PushLimit    = "pushes"
	ArrivalLimit = "arrivals"
	RequestLimit = "requests"
	NameLimit    = "names"
)

// limits hold the streams of a server to its limits.
type limits struct {
	Limits

	observer Observer
	arrivals *rate.Limiter // nil for no limit
	waiting  atomic.Int64
	pushes   chan struct{} // a place in it is a push; nil for no limit
}

func newLimits(l Limits, o Observer) *limits {
	of := &limits{Limits: l, observer: o, arrivals: limiter(l.Arrivals, l.ArrivalBurst)}
	if l.Pushes > 0 {
		of.pushes = make(chan struct{}, l.Pushes)
	}
	return of
}

func limiter(perSecond float64, burst int) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, burst))
}

// arrive waits for a new stream's turn, in the order in which they come.
func (l *limits) arrive(ctx context.Context, done <-chan struct{}) error {
	if l.arrivals == nil {
		return nil
	}
	turn := l.arrivals.Reserve()
	wait := turn.Delay()
	if wait == 0 {
		return nil
	}
	defer l.waiting.Add(-1)
	if waiting := l.waiting.Add(1); l.Waiting > 0 && waiting > int64(l.Waiting) {
		turn.Cancel()
		l.observer.Limited(ArrivalLimit, 0, true)
		return comeBack(wait, "as many clients wait for their turn to connect as may, %d: come back later, or raise --max-waiting-proxies and --max-proxy-rate", l.Waiting)
	}
	l.observer.Limited(ArrivalLimit, wait, false)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		turn.Cancel()
		return ctx.Err()
	case <-done:
		return errShutdown
	}
}

// comeBack refuses a client for now.
func comeBack(after time.Duration, format string, args ...any) error {
	s := status.New(codes.ResourceExhausted, fmt.Sprintf(format, args...))
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
		s = detailed
	}
	return s.Err()
}

// pace slows a client down that makes requests too fast. It is used where requests are received: what the stream is sent is not held up.
type pace struct {
	limits  *limits
	limiter *rate.Limiter
	slowed  func() // is called the first time
}

func (l *limits) pace(slowed func()) *pace {
	return &pace{limits: l, limiter: limiter(l.Requests, l.RequestBurst), slowed: slowed}
}

// keep waits until a request may be taken in.
func (p *pace) keep(ctx context.Context) {
	if p.limiter == nil || p.limiter.Allow() {
		return
	}
	wait := p.limiter.Reserve().Delay()
	if wait == 0 {
		return
	}
	if p.slowed != nil {
		p.slowed()
		p.slowed = nil
	}
	p.limits.observer.Limited(RequestLimit, wait, false)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
