package machine

import (
	"fmt"
	"strconv"
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
func CPUOf(pid int) time.Duration { return cpuIn(strconv.Itoa(pid)) }

// MainThreadCPUOf is that of the thread with which a process began: of Envoy, the one that takes configuration and no requests.
func MainThreadCPUOf(pid int) time.Duration {
	return cpuIn(fmt.Sprintf("%[1]d/task/%[1]d", pid))
}

func cpuIn(task string) time.Duration {
	fields := statOf(task)
	if len(fields) < 13 {
		return 0
	}
	return ticks(fields[11], fields[12])
}
