// Package panics recovers panics where they leave nothing half done: while the program answers one
// call, one page or one message of a peer. The caller gets an error, the log has the place and the
// stack, and a metric counts it.
//
// Do not use it where shared state changes: after a panic there, the process must end and start
// again.
package panics

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/terse"
)

// Error is a recovered panic as its caller sees it. It leaves out the panic's message, which may be
// about other callers.
type Error struct {
	ID string // identifies the place in the program; the log has the same id
}

func (e *Error) Error() string {
	return "the program has a defect, and could not do this: its log says where, as panic " + e.ID + ". Report it with that"
}

// GRPCStatus returns the status that a gRPC caller gets.
func (e *Error) GRPCStatus() *status.Status { return status.New(codes.Internal, e.Error()) }

var (
	total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pgmesh_panics_total",
		Help: "Panics that were caught, by what was being done: each is a defect of the program, of which the log has the stack.",
	}, []string{"doing"})
	logger atomic.Pointer[slog.Logger]
)

// Collector returns the metric that counts the panics of this process.
func Collector() prometheus.Collector { return total }

// LogTo sets the logger for panics. The default is slog.Default().
func LogTo(log *slog.Logger) { logger.Store(log) }

// Catch must be deferred. It turns a panic of the deferring function into its error. doing is a
// label of the metric, so it must be one of few words.
func Catch(doing string, err *error) {
	if v := recover(); v != nil {
		*err = caught(doing, v)
	}
}

// Try calls a function and turns its panic into an error.
func Try(doing string, do func() error) (err error) {
	defer Catch(doing, &err)
	return do()
}

// Receive is Try for functions that read from a peer.
func Receive[T any](receive func() (T, error)) (message T, err error) {
	defer Catch("message", &err)
	return receive()
}

// Forward passes on what receive reads from a peer, until that fails or the context ends. It
// returns why it ended.
func Forward[T any](ctx context.Context, receive func() (T, error), to chan<- T) error {
	for {
		message, err := Receive(receive)
		if err != nil {
			return err
		}
		select {
		case to <- message:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Forwarded is Forward in the background: one channel has what was read, and the other, once that
// ends, why.
func Forwarded[T any](ctx context.Context, receive func() (T, error)) (messages <-chan T, ended <-chan error) {
	to, why := make(chan T), make(chan error, 1)
	go func() { why <- Forward(ctx, receive, to) }()
	return to, why
}

// Run calls a function and swallows its panic, after counting and logging it.
func Run(doing string, do func()) {
	_ = Try(doing, func() error { do(); return nil })
}

// These bound what one panic adds to the log: a peer may have chosen its message.
const (
	longestMessage = 1 << 10
	longestStack   = 8 << 10
)

// caught counts and logs a panic. It must run inside a deferred call, while the stack is still that
// of the panic.
func caught(doing string, v any) *Error {
	total.WithLabelValues(doing).Inc()
	id := place()
	if shouldLog(id) {
		log := logger.Load()
		if log == nil {
			log = slog.Default()
		}
		log.Error("caught a panic, which is a defect of this program; what was asked for has failed and everything else goes on. Report it with its stack",
			"doing", doing, "panic", id, "message", terse.Text(fmt.Sprint(v), longestMessage), "stack", terse.Text(string(debug.Stack()), longestStack))
	}
	return &Error{id}
}
