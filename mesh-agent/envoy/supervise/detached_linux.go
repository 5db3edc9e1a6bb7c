package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startDetached starts a child that outlives its parent. An Envoy with hot restart asks the kernel
// to kill it with its parent (1.40: prctl(PR_SET_PDEATHSIG) in HotRestartImpl). So it is started on
// a thread with a seccomp filter that answers this call with success and does nothing. A filter is
// inherited and cannot be removed, so the thread is not reused.
func startDetached(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if err := ignoreParentDeathSignal(); err != nil {
			result <- err
			return
		}
		result <- cmd.Start()
	}()
	return <-result
}

// ignoreParentDeathSignal makes PR_SET_PDEATHSIG a no-op for this thread and its children.
func ignoreParentDeathSignal() error {
	const (
		number   = 0  // offset of the system call's number in struct seccomp_data
		argument = 16 // offset of the low half of the first argument on little-endian machines
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PRCTL, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: argument},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_SET_PDEATHSIG, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // errno 0: success
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Root may install a filter as it is. Others must first give up that programs they run gain
	// privileges.
	err := setFilter(&program)
	if err != nil {
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err == nil {
			err = setFilter(&program)
		}
	}
	runtime.KeepAlive(filter)
	if err != nil {
		return fmt.Errorf("let Envoy outlive its agent: %w", err)
	}
	return nil
}

func setFilter(program *unix.SockFprog) error {
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(program)))
	if failed != 0 {
		return os.NewSyscallError("seccomp", failed)
	}
	return nil
}

// checkDetachable returns an error if program cannot be detached, or would lose its file
// capabilities by that.
func checkDetachable(program string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	if n, err := unix.Getxattr(program, "security.capability", make([]byte, 64)); err == nil && n > 0 {
		return fmt.Errorf("%s has rights of its own (setcap), which it would lose: give them to the agent instead (AmbientCapabilities of its systemd unit)", program)
	}
	return nil
}
