package embedded

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// process is the server as a child of ours.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// spawn starts the server itself rather than pg_ctl, so that it stays our child and its end is seen.
func spawn(bin string, args []string, who account, logFile string, fast bool) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return nil, fmt.Errorf("opening the log of Postgres: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir = filepath.Dir(logFile)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes(who, fast)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.mind(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// mind keeps its thread for as long as the server lives: Linux sends the parent-death signal when the thread that
// started the child ends, and Go may end an idle thread.
func (p *process) mind(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait()
	close(p.done)
}

// end asks for a fast shutdown, which ends the sessions and writes out what is committed, and waits for it.
func (p *process) end() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	<-p.done
}
