// Package panics keeps a panic from ending the process where nothing is left half done by it: in what answers one call, one page or one
// message of a peer. Whoever asked is told that it failed, the log says where and a metric counts.
//
// A panic while shared state is changed is not for this package: then the process has to end, and be started again.
package panics

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/terse"
)

// Error is a panic that was caught, as whoever asked is told of it: without what it says, which may be about others.
type Error struct {
	ID string // of the place in the program, by which the log has it
}

func (e *Error) Error() string {
	return "the program has a defect, and could not do this: its log says where, as panic " + e.ID + ". Report it with that"
}

// GRPCStatus is what a caller of gRPC is told.
func (e *Error) GRPCStatus() *status.Status { return status.New(codes.Internal, e.Error()) }

var (
	total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pgmesh_panics_total",
		Help: "Panics that were caught, by what was being done: each is a defect of the program, of which the log has the stack.",
	}, []string{"doing"})
	logger atomic.Pointer[slog.Logger]
)

// Collector counts the panics of this process.
func Collector() prometheus.Collector { return total }

// LogTo says where panics are logged. Without it that is slog's own logger.
func LogTo(log *slog.Logger) { logger.Store(log) }

// Catch is to be deferred, by the function whose panic it turns into an error. Doing is one of few words, for the metric.
func Catch(doing string, err *error) {
	if v := recover(); v != nil {
		*err = caught(doing, v)
	}
}

// Try calls a function, whose panic becomes its error.
func Try(doing string, do func() error) (err error) {
	defer Catch(doing, &err)
	return do()
}

// Receive is Try for what reads from a peer.
func Receive[T any](receive func() (T, error)) (message T, err error) {
	defer Catch("message", &err)
	return receive()
}

// Run calls a function, and returns early where it panics.
func Run(doing string, do func()) {
	_ = Try(doing, func() error { do(); return nil })
}

// What is logged of a panic at the most: its message may have been chosen by a peer.
const (
	longestMessage = 1 << 10
	longestStack   = 8 << 10
)

// caught counts a panic and logs it. It is called by what a deferred function calls, while the stack is still that of the panic.
func caught(doing string, v any) *Error {
	total.WithLabelValues(doing).Inc()
	id := place()
	if tell(id) {
		log := logger.Load()
		if log == nil {
			log = slog.Default()
		}
		log.Error("caught a panic, which is a defect of this program; what was asked for has failed and everything else goes on. Report it with its stack",
			"doing", doing, "panic", id, "message", terse.Text(fmt.Sprint(v), longestMessage), "stack", terse.Text(string(debug.Stack()), longestStack))
	}
	return &Error{id}
}
