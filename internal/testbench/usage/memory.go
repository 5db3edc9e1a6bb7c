package usage

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is the resident memory of a process in bytes, now and at its peak.
type Memory struct{ Now, Peak int64 }

// MemoryOf reads the memory of a process.
func MemoryOf(pid int) (m Memory) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		kB, _ := strconv.ParseInt(fields[0], 10, 64)
		switch name {
		case "VmRSS":
			m.Now = kB << 10
		case "VmHWM":
			m.Peak = kB << 10
		}
	}
	return m
}

// ProportionalOf is the proportional set size of a process in bytes: shared pages count in parts.
func ProportionalOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
			kB, _ := strconv.ParseInt(fields[1], 10, 64)
			return kB << 10
		}
	}
	return 0
}

// ForgetPeak resets the peak of a process to its present memory.
func ForgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
