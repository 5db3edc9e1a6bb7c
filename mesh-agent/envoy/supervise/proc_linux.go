package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// canAdopt reports whether an agent can watch processes that it did not start.
const canAdopt = true

// handle is a pidfd, which identifies its process even after the kernel reuses the process ID.
type handle struct {
	pid  int
	file *os.File
}

func openHandle(pid int) (*handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &handle{pid, os.NewFile(uintptr(fd), "pidfd")}, nil
}

// wait returns how the process ended, or an error when the handle is closed.
func (h *handle) wait() (how string, err error) {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return "", err
	}
	if err := raw.Read(hasEnded); err != nil {
		return "", err
	}
	var status unix.WaitStatus
	if pid, err := unix.Wait4(h.pid, &status, unix.WNOHANG, nil); err != nil || pid != h.pid {
		return unknownExit, nil //nolint:nilerr // it is not a child: its exit status went to another process
	}
	if status.Signaled() {
		return "signal: " + status.Signal().String(), nil
	}
	return "exit status " + strconv.Itoa(status.ExitStatus()), nil
}

func hasEnded(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// hasEnded also reports true for a zombie.
func (h *handle) hasEnded() (ended bool) {
	raw, err := h.file.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { ended = hasEnded(fd) }) == nil && ended
}

func (h *handle) signal(signal syscall.Signal) error {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), signal, nil, 0) }), err)
}

func (h *handle) close() { h.file.Close() }

// startOf returns when a process was started, in ticks since boot.
func startOf(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The program's name before it may contain spaces and parentheses.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// imageOf returns a path to the program of a process, as it was when the process started.
func imageOf(pid int) string { return fmt.Sprintf("/proc/%d/exe", pid) }

// detached is for a child that outlives its parent.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// tied makes the kernel kill the child when the thread that started it ends.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// grantCapabilities lets an account other than root listen on all ports and, if transparent is set,
// use foreign addresses.
func grantCapabilities(attributes *syscall.SysProcAttr, transparent bool) {
	attributes.AmbientCaps = []uintptr{unix.CAP_NET_BIND_SERVICE}
	if transparent {
		attributes.AmbientCaps = append(attributes.AmbientCaps, unix.CAP_NET_ADMIN)
	}
}
