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

// Limits keep one client from taking what the others need, and all of them together from taking
// more than the machine has. Zero means no limit.
type Limits struct {
	Pushes       int     // streams that compute or send something at the same time
	Arrivals     float64 // new streams a second, on average
	ArrivalBurst int
	Waiting      int     // new streams that may wait for their turn
	Requests     float64 // requests a second of a stream, on average
	RequestBurst int
	Names        int // names that a stream may ask for

	Memory     int     // MiB for all requests that are being processed
	Again      float64 // whole states a second, on average, that clients ask for again; for all of them together
	AgainBurst int
	NamesAgain int // how many names count as a whole state when an incremental client asks for them again; 0 means that none count

	of clientFlags
}

// clientFlags are what the flags call clients.
type clientFlags struct{ rate, waiting, names string }

var (
	proxyFlags  = clientFlags{"max-proxy-rate", "max-waiting-proxies", "max-proxy-names"}
	readerFlags = clientFlags{"max-reader-rate", "max-waiting-readers", "max-reader-names"}
)

// named are the flags that messages refer to.
func (l *Limits) named() clientFlags {
	if l.of == (clientFlags{}) {
		return proxyFlags
	}
	return l.of
}

// ReaderFlags declares the flags of a server whose clients are readers.
func (l *Limits) ReaderFlags(f *pflag.FlagSet) {
	l.of = readerFlags
	f.Float64Var(&l.Arrivals, readerFlags.rate, 400, "how many readers of MCP may connect a second, on average; further ones wait for their turn; 0 for any number")
	f.IntVar(&l.ArrivalBurst, "max-reader-burst", 2000, "how many readers may connect at once")
	f.IntVar(&l.Waiting, readerFlags.waiting, 4000, "how many readers may wait for their turn to connect; further ones are told to come back; 0 for any number")
	f.Float64Var(&l.Requests, "max-request-rate", 500, "how many requests a reader may make a second, on average; a faster one is slowed down; 0 for any number")
	f.IntVar(&l.RequestBurst, "max-request-burst", 2000, "how many requests a reader may make at once")
	f.IntVar(&l.Names, readerFlags.names, 2_000_000, "how many resources a reader may name, be it that it asks for them or that it has them; 0 for any number")
	l.budgetFlags(f, "readers", 256)
	l.NamesAgain = namesOfState
}

// namesOfState is how many names count as a state: an answer about so many costs about as much as a
// whole small kind.
const namesOfState = 1000

func (l *Limits) budgetFlags(f *pflag.FlagSet, clients string, memory int) {
	f.IntVar(&l.Memory, "max-request-memory-mib", memory, "how much memory the large requests of all "+clients+" together may take while they are read and answered, in MiB, and one of them half of it; "+
		"further ones wait, and are told to come back; 0 for any")
	f.Float64Var(&l.Again, "max-repeat-rate", 100, "how many whole states a second, on average, all "+clients+" together are sent only because they ask without a nonce for what they have been sent, "+
		"and one of them a quarter of it; further ones wait, and are told to come back; 0 for any number")
	f.IntVar(&l.AgainBurst, "max-repeat-burst", 2000, "how many of these at once")
}

// Flags declares the flags of a server whose clients are proxies.
func (l *Limits) Flags(f *pflag.FlagSet) {
	l.of = proxyFlags
	l.budgetFlags(f, "proxies", 128)
	f.IntVar(&l.Pushes, "max-concurrent-pushes", 100, "how many proxies are sent something at the same time; 0 for any number")
	f.Float64Var(&l.Arrivals, "max-proxy-rate", 400, "how many proxies may connect a second, on average; further ones wait for their turn; 0 for any number")
	f.IntVar(&l.ArrivalBurst, "max-proxy-burst", 200, "how many proxies may connect at once")
	f.IntVar(&l.Waiting, "max-waiting-proxies", 4000, "how many proxies may wait for their turn to connect; further ones are told to come back; 0 for any number")
	f.Float64Var(&l.Requests, "max-request-rate", 500, "how many requests a proxy may make a second, on average; a faster one is slowed down; 0 for any number")
	f.IntVar(&l.RequestBurst, "max-request-burst", 2000, "how many requests a proxy may make at once")
	f.IntVar(&l.Names, "max-proxy-names", 200_000, "how many resources a proxy may ask for by name; 0 for any number")
}

// The names of the limits, for observers.
const (
	PushLimit       = "pushes"
	ArrivalLimit    = "arrivals"
	RequestLimit    = "requests"
	NameLimit       = "names"
	MemoryLimit     = "memory"
	UnfinishedLimit = "unfinished"
	RepeatLimit     = "repeats"
)

// bounds applies the limits to the streams of a server.
type bounds struct {
	Limits

	observer Observer
	arrivals *rate.Limiter // nil for no limit
	waiting  atomic.Int64
	pushes   chan struct{} // one slot for each push; nil for no limit
}

func newBounds(l Limits, o Observer) *bounds {
	of := &bounds{Limits: l, observer: o, arrivals: limiter(l.Arrivals, l.ArrivalBurst)}
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
func (l *bounds) arrive(ctx context.Context, done <-chan struct{}) error {
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
		return comeBack(wait, "as many clients wait for their turn to connect as may, %d: come back later, or raise --%s and --%s", l.Waiting, l.named().waiting, l.named().rate)
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

// pace slows down a client that sends requests too fast. It delays receiving, and not what the
// stream is sent.
type pace struct {
	limits  *bounds
	limiter *rate.Limiter
	slowed  func() // called the first time
}

func (l *bounds) pace(slowed func()) *pace {
	return &pace{limits: l, limiter: limiter(l.Requests, l.RequestBurst), slowed: slowed}
}

// keep waits until a request may be processed.
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
