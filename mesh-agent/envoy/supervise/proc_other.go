//go:build !linux

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Other kernels do not report the end of a process that another process started, so each agent has
// its own Envoy.
const canAdopt = false

type handle struct {
	process *os.Process
}

func openHandle(pid int) (*handle, error) {
	process, err := os.FindProcess(pid)
	return &handle{process}, err
}

func (h *handle) wait() (how string, err error) {
	state, err := h.process.Wait()
	if err != nil {
		return "", err
	}
	return state.String(), nil
}

func (h *handle) hasEnded() bool { return false }

func (h *handle) signal(signal syscall.Signal) error { return h.process.Signal(signal) }

func (h *handle) close() {}

func startOf(int) (uint64, error) { return 0, errors.ErrUnsupported }

func imageOf(int) string { return "" }

func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func startDetached(cmd *exec.Cmd) error { return cmd.Start() }

func checkDetachable(string) error { return errors.New("it needs Linux") }

func grantCapabilities(*syscall.SysProcAttr, bool) {}
