package embedded

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/pgmesh/pgmesh/internal/kit/process"
)

// spawn starts the server itself rather than pg_ctl, so that it stays our child and its end is
// seen.
func spawn(bin string, args []string, who account, logFile string, fast bool) (*process.Process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return nil, fmt.Errorf("opening the log of Postgres: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir = filepath.Dir(logFile)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes(who, fast)
	return process.Start(cmd)
}

// end asks for a fast shutdown, which ends the sessions and writes out what is committed, and waits
// for it.
func end(p *process.Process) {
	if p == nil {
		return
	}
	p.Signal(syscall.SIGINT)
	<-p.Done()
}
