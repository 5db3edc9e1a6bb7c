//go:build unix

package probe

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// inOwnGroup starts a command in its own process group, and kills the whole group on cancellation.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
