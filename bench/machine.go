package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// cpuTime is what the machine's processors have done since it started, in the kernel's ticks.
type cpuTime struct{ all, idle, stolen uint64 }

// readCPUTime reads nothing where there is no /proc.
func readCPUTime() cpuTime {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTime{}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var c cpuTime
	for i, field := range strings.Fields(line)[1:] {
		ticks, _ := strconv.ParseUint(field, 10, 64)
		switch i {
		case 3, 4: // idle, and idle while waiting for a disk
			c.idle += ticks
		case 7:
			c.stolen = ticks
		case 8, 9: // guests, which are counted as users already
			continue
		}
		c.all += ticks
	}
	return c
}

// since describes how quiet the machine was: times taken while others have its processors say little.
func (c cpuTime) since(start cpuTime) string {
	all := float64(c.all - start.all)
	if all == 0 {
		return "unknown"
	}
	return fmt.Sprintf("processors %.0f%% busy, %.0f%% taken away by the host",
		100*(all-float64(c.idle-start.idle)-float64(c.stolen-start.stolen))/all, 100*float64(c.stolen-start.stolen)/all)
}
