package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startLasting starts a child that goes on without its parent. An Envoy that can be restarted hot asks the kernel to be ended with its parent
// (1.40: prctl(PR_SET_PDEATHSIG) in its HotRestartImpl). So it is started on a thread where that is answered with a yes, and nothing is done; such a
// filter is inherited, and cannot be taken away, so the thread is not used again.
func startLasting(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if err := ignoreDeathOfParent(); err != nil {
			result <- err
			return
		}
		result <- cmd.Start()
	}()
	return <-result
}

// ignoreDeathOfParent has this thread and its children ask in vain to be sent a signal when their parent ends.
func ignoreDeathOfParent() error {
	const (
		number   = 0  // where a filter finds the number of a system call,
		argument = 16 // and the lower half of its first argument where the small end comes first
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PRCTL, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: argument},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_SET_PDEATHSIG, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // with the error 0
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Root may do this as it is. Others have to promise first that no program they run gets more rights than they have.
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

// canLast says why a program could not do without its parent, or not without rights that it would lose with that.
func canLast(program string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	if n, err := unix.Getxattr(program, "security.capability", make([]byte, 64)); err == nil && n > 0 {
		return fmt.Errorf("%s has rights of its own (setcap), which it would lose: give them to the agent instead (AmbientCapabilities of its systemd unit)", program)
	}
	return nil
}
