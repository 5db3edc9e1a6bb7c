package machine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// OwnCPU is the time that this process has spent on all processors.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of /proc/PID/stat, which Linux has at a hundredth of a second for every program to see.
const tick = 10 * time.Millisecond

// CPUOf is the time that a process has spent on all processors, to a hundredth of a second.
func CPUOf(pid int) time.Duration { return cpuIn(fmt.Sprintf("/proc/%d/stat", pid)) }

// MainThreadCPUOf is that of the thread with which a process began: of Envoy, the one that takes configuration and no requests.
func MainThreadCPUOf(pid int) time.Duration {
	return cpuIn(fmt.Sprintf("/proc/%[1]d/task/%[1]d/stat", pid))
}

func cpuIn(file string) time.Duration {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	// What comes after the name is fixed; the name itself may have blanks and parentheses.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}
