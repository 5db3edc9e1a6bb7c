package netns

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// Alone has a command, which has not been started, run in a new network namespace without a name.
// Only root can do so.
func Alone(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
}

// Own returns the namespace of this process, which Alone has started. So a process is a machine on a
// switch itself: all of its sockets are there, those that it opens without asking this package, too.
func Own(t testing.TB) *Namespace {
	t.Helper()
	if all, err := net.Interfaces(); err != nil || len(all) != 1 {
		t.Fatalf("this process is in a network with more than a loopback interface: start it by netns.Alone (%v)", err)
	}
	return named(t, func(name string) []string { return []string{"attach", name, strconv.Itoa(os.Getpid())} })
}
