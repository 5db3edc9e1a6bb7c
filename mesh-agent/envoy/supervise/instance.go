package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
)

// terminateTimeout is how long Envoy may take to end after SIGTERM. It needs milliseconds; one that
// needs this long hangs.
const terminateTimeout = 5 * time.Second

// unknownExit describes the end of a process that another process started.
const unknownExit = "in a way that only the agent which had started it could know"

// record describes a running Envoy on disk, so that the next agent recognizes it.
type record struct {
	Pid        int       `json:"pid"`
	Start      uint64    `json:"start"` // start time, in ticks since boot
	Boot       string    `json:"boot"`
	Program    string    `json:"program"`
	Image      string    `json:"image"`  // identifies the program's file
	ConfigHash string    `json:"wanted"` // hash of everything it was started with
	Started    time.Time `json:"born"`
	Account    string    `json:"account,omitempty"`

	// For hot restart.
	Hot    bool   `json:"hot"`
	BaseID uint32 `json:"baseId,omitempty"`
	Epoch  int    `json:"epoch,omitempty"`
}

// instance is one Envoy process that this agent started or reattached to.
type instance struct {
	record

	handle   *handle
	admin    admin
	wasReady atomic.Bool   // it has been ready
	done     chan struct{} // closed when the process has ended
	exit     string        // how it ended; set before done is closed

	adopted  bool // an earlier agent started it
	retiring bool // a goroutine waits for its connections to end
}

// watchProcess returns an instance, and waits in the background for its process to end.
func watchProcess(r record, h *handle, a admin) *instance {
	l := &instance{record: r, handle: h, admin: a, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		how, err := h.wait()
		if l.exit = how; err != nil {
			l.exit = err.Error()
		}
		h.close()
	}()
	return l
}

// reattach returns an instance for a record if its process still runs.
func reattach(r record, a admin) (*instance, error) {
	h, err := pinned(r)
	if err != nil {
		return nil, err
	}
	l := watchProcess(r, h, a)
	l.adopted = true
	return l, nil
}

// pinned returns a handle of a record's process if that still runs.
func pinned(r record) (*handle, error) {
	if r.Boot != statedir.Boot() {
		return nil, errors.New("the machine was started anew since")
	}
	h, err := openHandle(r.Pid)
	if err != nil {
		return nil, err
	}
	// The handle pins the process: if the ID had been reused before the handle was opened, start
	// time or image would differ, and if it is reused later, hasEnded reports true.
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
	return h, nil
}

// Done is closed when the process has ended.
func (l *instance) Done() <-chan struct{} { return l.done }

func (l *instance) hasEnded() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// ready asks Envoy, and remembers whether it has ever been ready. One that drains has been.
func (l *instance) ready(ctx context.Context) error {
	err := l.admin.ready(ctx)
	if err == nil || isDraining(err) {
		l.wasReady.Store(true)
	}
	return err
}

// serves reports whether Envoy has its configuration: it is ready, or was so before it was drained.
func (l *instance) serves(ctx context.Context) bool {
	err := l.ready(ctx)
	return err == nil || isDraining(err)
}

// terminate ends the process. It returns an error if it had to kill it.
func (l *instance) terminate() error {
	_ = l.handle.signal(syscall.SIGTERM)
	deadline := time.NewTimer(terminateTimeout)
	defer deadline.Stop()
	select {
	case <-l.done:
		return nil
	case <-deadline.C:
		l.kill()
		return fmt.Errorf("Envoy did not end within %s of SIGTERM and was killed", terminateTimeout)
	}
}

func (l *instance) kill() {
	_ = l.handle.signal(syscall.SIGKILL)
	<-l.done
}
