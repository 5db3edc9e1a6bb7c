package netns

import (
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
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatalf("find out the network namespace of this process: %v", err)
	}
	if first, err := os.Readlink("/proc/1/ns/net"); err != nil || own == first {
		t.Fatalf("this process is in the network of the machine: start it by netns.Alone (%v)", err)
	}
	return named(t, func(name string) []string { return []string{"attach", name, strconv.Itoa(os.Getpid())} })
}
