// Package process runs child programs that cannot outlive their parent: however the parent dies,
// the kernel kills the children (on Linux).
package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child process that was started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs cmd in its own process group, so that Ctrl-C in a terminal reaches only the parent,
// which then stops its children in its own order. Start keeps the other settings of
// cmd.SysProcAttr. The caller must not use cmd afterwards.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes(cmd.SysProcAttr)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run keeps its thread until the child ends: the kernel sends the parent-death signal when the
// thread that forked ends, and Go may end an idle thread at any time.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// Pid returns the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the child has ended and its output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the child to end. It returns nil for exit code 0, otherwise usually an
// *exec.ExitError.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// ExitStatus waits for the child to end and describes how it did: "exit status 1", "signal:
// killed".
func (p *Process) ExitStatus() string {
	<-p.done
	return p.cmd.ProcessState.String()
}

// WasKilled waits for the child to end and reports whether SIGKILL ended it.
func (p *Process) WasKilled() bool {
	<-p.done
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Signal sends a signal to the child, if it still runs.
func (p *Process) Signal(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal)
}

// Stop sends SIGTERM, kills the child if it has not ended within grace, and returns when it is
// gone.
func (p *Process) Stop(grace time.Duration) {
	p.Signal(syscall.SIGTERM)
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	select {
	case <-p.done:
	case <-deadline.C:
		p.Kill()
	}
}

// Kill kills the child and returns when it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}
