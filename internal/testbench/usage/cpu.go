package usage

import (
	"fmt"
	"strconv"
	"syscall"
	"time"
)

// OwnCPU is the processor time of this process.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of /proc/PID/stat: Linux reports hundredths of a second to all programs.
const tick = 10 * time.Millisecond

// CPUOf is the processor time of a process, in hundredths of a second.
func CPUOf(pid int) time.Duration { return cpuIn(strconv.Itoa(pid)) }

// MainThreadCPUOf is the processor time of a process's first thread. Envoy's handles configuration
// and no requests.
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
