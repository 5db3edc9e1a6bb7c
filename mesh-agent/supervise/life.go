package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/statedir"
)

// terminateWithin is how long Envoy may take to end after SIGTERM. It needs milliseconds; one that needs this long
// hangs.
const terminateWithin = 5 * time.Second

// unknownEnd is how a process ended that this one has not started.
const unknownEnd = "in a way that only the agent which had started it could know"

// record is what is written down of a life of Envoy, for the next agent to know it again.
type record struct {
	Pid     int       `json:"pid"`
	Start   uint64    `json:"start"` // in ticks since the machine's
	Boot    string    `json:"boot"`
	Program string    `json:"program"`
	Image   string    `json:"image"`  // which file the program was
	Wanted  string    `json:"wanted"` // a hash of all that it was started with
	Born    time.Time `json:"born"`
	Account string    `json:"account,omitempty"`

	// Of an Envoy that can be replaced without a pause.
	Hot    bool   `json:"hot"`
	BaseID uint32 `json:"baseId,omitempty"`
	Epoch  int    `json:"epoch,omitempty"`
}

// life is that of one Envoy, which this agent has started or found.
type life struct {
	record

	handle *handle
	admin  admin
	served atomic.Bool // it was ready once
	done   chan struct{}
	how    string

	adopted  bool // an earlier agent has started it
	retiring bool // somebody waits for its connections to end
}

// watched is a life whose process is held.
func watched(r record, h *handle, a admin) *life {
	l := &life{record: r, handle: h, admin: a, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		how, err := h.wait()
		if l.how = how; err != nil {
			l.how = err.Error()
		}
		h.close()
	}()
	return l
}

// again is a life of a record if its process is still that.
func again(r record, a admin) (*life, error) {
	if r.Boot != statedir.Boot() {
		return nil, errors.New("the machine was started anew since")
	}
	h, err := hold(r.Pid)
	if err != nil {
		return nil, err
	}
	// What is asked now is asked of the process that is held, or the kernel would not have given its number to another yet.
	start, err := startOf(r.Pid)
	image, _ := imageOnDisk(imageOf(r.Pid))
	if err == nil && h.hasEnded() {
		err = errors.New("it has just ended")
	}
	if err == nil && (start != r.Start || image != r.Image) {
		err = errors.New("it is another process")
	}
	if err != nil {
		h.close()
		return nil, err
	}
	l := watched(r, h, a)
	l.adopted = true
	return l, nil
}

// Done is closed when it has ended.
func (l *life) Done() <-chan struct{} { return l.done }

func (l *life) hasEnded() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// ready asks Envoy, and remembers that it was.
func (l *life) ready(ctx context.Context) error {
	if err := l.admin.ready(ctx); err != nil {
		return err
	}
	l.served.Store(true)
	return nil
}

// terminate ends it; one that hangs is killed, which is an error.
func (l *life) terminate() error {
	_ = l.handle.signal(syscall.SIGTERM)
	deadline := time.NewTimer(terminateWithin)
	defer deadline.Stop()
	select {
	case <-l.done:
		return nil
	case <-deadline.C:
		l.kill()
		return fmt.Errorf("Envoy did not end within %s of SIGTERM and was killed", terminateWithin)
	}
}

func (l *life) kill() {
	_ = l.handle.signal(syscall.SIGKILL)
	<-l.done
}
