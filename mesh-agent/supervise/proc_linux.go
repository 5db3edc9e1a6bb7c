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

// canAdopt tells whether processes that this one has not started can be watched.
const canAdopt = true

// handle is a hold on a process, which stays that of this process when the kernel gives its number to another.
type handle struct {
	pid  int
	file *os.File
}

func hold(pid int) (*handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &handle{pid, os.NewFile(uintptr(fd), "pidfd")}, nil
}

// wait returns when the process has ended, and tells how, or when the handle is closed.
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
		return unknownEnd, nil //nolint:nilerr // it was no child of this process: somebody else was told
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

// hasEnded is also true of one that waits for its parent to ask how.
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

// startOf is when a process was started, in ticks since the machine was.
func startOf(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name before it may have spaces and brackets.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// imageOf is the program that a process runs, as it was when the process was started.
func imageOf(pid int) string { return fmt.Sprintf("/proc/%d/exe", pid) }

// lasting has a child go on without its parent.
func lasting() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// tied has the kernel end a child with the thread that started it.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// keepRights leaves an account that is not root the right to listen on all ports, and to use addresses that are not the machine's where it has to.
func keepRights(attributes *syscall.SysProcAttr, transparent bool) {
	attributes.AmbientCaps = []uintptr{unix.CAP_NET_BIND_SERVICE}
	if transparent {
		attributes.AmbientCaps = append(attributes.AmbientCaps, unix.CAP_NET_ADMIN)
	}
}
