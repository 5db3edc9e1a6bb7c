// Package process runs child programs that cannot outlive the process that started them: the kernel kills a child when
// its parent is gone, however the parent went.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running child, or one that has ended.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs cmd in a process group of its own, so that a Ctrl-C in the terminal reaches only the parent, which then
// ends its children in the order it wants. What cmd asks for in its SysProcAttr besides that counts. The caller must not use cmd
// afterwards.
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

// run stays on one thread until the child has ended: the kernel's "parent is gone" means the thread that forked, and Go
// may end an idle thread at any time.
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

// Pid is the process id of the child.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended and its output was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the end of the child. It is nil after exit code 0, otherwise usually an *exec.ExitError.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// How waits for the end of the child and tells how it came: "exit status 1", "signal: killed".
func (p *Process) How() string {
	<-p.done
	return p.cmd.ProcessState.String()
}

// WasKilled waits for the end of the child and tells whether SIGKILL was its cause.
func (p *Process) WasKilled() bool {
	<-p.done
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Signal sends a signal to the child. It is not an error if the child has already ended.
func (p *Process) Signal(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal)
}

// Stop asks the child to end, kills it if it has not ended within grace, and returns when it is gone.
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

// Kill ends the child at once and returns when it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}
