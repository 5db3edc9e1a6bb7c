// Package host gives benchmarks the servers of tests, which belong to a test.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// Host is what the servers of tests take for the test that they belong to. What none of them calls is
// missing.
type Host struct {
	testing.TB

	ctx    context.Context //nolint:containedctx // a test has one
	ends   []func()
	failed bool
}

// stopped is what a Host panics with when its test would end.
type stopped struct{ error }

// During calls something with a host, and then all that it has put off.
func During(ctx context.Context, do func(*Host) error) (err error) {
	h := &Host{ctx: ctx}
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
func (h *Host) Helper() {}

// Context ends when the program is stopped.
func (h *Host) Context() context.Context { return h.ctx }

// Failed reports whether something has failed.
func (h *Host) Failed() bool { return h.failed }

// Cleanup puts something off until the end.
func (h *Host) Cleanup(end func()) { h.ends = append(h.ends, end) }

// TempDir is a folder that is removed at the end.
func (h *Host) TempDir() string {
	folder, err := os.MkdirTemp("", "bench")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// Logf says why something has failed.
func (h *Host) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Errorf says what has failed.
func (h *Host) Errorf(format string, args ...any) {
	h.failed = true
	h.Logf(format, args...)
}

// FailNow ends the host.
func (h *Host) FailNow() { h.Fatal(errors.New("a server has failed")) }

// Fatal ends the host with a reason.
func (h *Host) Fatal(args ...any) {
	h.failed = true
	panic(stopped{errors.New(fmt.Sprint(args...))})
}

// Fatalf does so, too.
func (h *Host) Fatalf(format string, args ...any) { h.Fatal(fmt.Sprintf(format, args...)) }

// Skip ends the host where a program is missing.
func (h *Host) Skip(args ...any) { h.Fatal(args...) }

// Address is an address of this machine that is not on loopback, where Kubernetes takes no endpoints.
func Address() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if at, is := a.(*net.IPNet); is && at.IP.To4() != nil && at.IP.IsGlobalUnicast() {
			return at.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address but loopback, on which Kubernetes takes no endpoints: give it one, or leave Kubernetes out with --only")
}

// Backend serves HTTP at an address, on any port, until the measurement ends. It answers with its name.
func (h *Host) Backend(address, name string) (*httptest.Server, error) {
	listener, err := new(net.ListenConfig).Listen(h.ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, err
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	s.Listener.Close()
	s.Listener = listener
	s.Start()
	h.Cleanup(s.Close)
	return s, nil
}
