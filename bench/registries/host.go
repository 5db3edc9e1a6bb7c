package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// host is what the servers of tests take for the test that they belong to. What none of them calls is
// missing.
type host struct {
	testing.TB

	ctx    context.Context //nolint:containedctx // a test has one
	ends   []func()
	failed bool
}

// stopped is what a host panics with when its test would end.
type stopped struct{ error }

// during calls something with a host, and then all that it has put off.
func during(ctx context.Context, do func(*host) error) (err error) {
	h := &host{ctx: ctx}
	defer func() {
		for len(h.ends) > 0 {
			last := h.ends[len(h.ends)-1]
			h.ends = h.ends[:len(h.ends)-1]
			last()
		}
	}()
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case stopped:
			err = reason
		default:
			panic(reason)
		}
	}()
	return do(h)
}

// Helper is of tests alone.
func (h *host) Helper() {}

// Context ends when the program is stopped.
func (h *host) Context() context.Context { return h.ctx }

// Failed reports whether something has failed.
func (h *host) Failed() bool { return h.failed }

// Cleanup puts something off until the end.
func (h *host) Cleanup(end func()) { h.ends = append(h.ends, end) }

// TempDir is a folder that is removed at the end.
func (h *host) TempDir() string {
	folder, err := os.MkdirTemp("", "registries")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// Logf says why something has failed.
func (h *host) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Errorf says what has failed.
func (h *host) Errorf(format string, args ...any) {
	h.failed = true
	h.Logf(format, args...)
}

// FailNow ends the host.
func (h *host) FailNow() { h.Fatal(errors.New("a server has failed")) }

// Fatal ends the host with a reason.
func (h *host) Fatal(args ...any) {
	h.failed = true
	panic(stopped{errors.New(fmt.Sprint(args...))})
}

// Fatalf does so, too.
func (h *host) Fatalf(format string, args ...any) { h.Fatal(fmt.Sprintf(format, args...)) }

// Skip ends the host where a program is missing.
func (h *host) Skip(args ...any) { h.Fatal(args...) }
