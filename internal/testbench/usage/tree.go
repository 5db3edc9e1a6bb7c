package usage

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// TreeCPUOf is the processor time of a process with its children: the live ones, and those it has
// waited for. For Postgres this covers all sessions and workers.
func TreeCPUOf(pid int) time.Duration {
	total := CPUOf(pid) + startedBy(pid)
	for _, child := range childrenOf(pid) {
		total += CPUOf(child) + startedBy(child)
	}
	return total
}

// startedBy is the processor time of the children that a process has waited for.
func startedBy(pid int) time.Duration {
	fields := statOf(strconv.Itoa(pid))
	if len(fields) < 15 {
		return 0
	}
	return ticks(fields[13], fields[14])
}

// childrenOf lists the live children of a process.
func childrenOf(parent int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		pid := filepath.Base(filepath.Dir(stat))
		if fields := statOf(pid); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			child, _ := strconv.Atoi(pid)
			children = append(children, child)
		}
	}
	return children
}

// statOf returns the fields of /proc/PID/stat after the name, for a process or a thread: first its
// state, then its parent.
func statOf(task string) []string {
	text, err := os.ReadFile("/proc/" + task + "/stat")
	if err != nil {
		return nil
	}
	// The name may contain blanks and parentheses.
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

func ticks(user, system string) time.Duration {
	u, _ := strconv.ParseInt(user, 10, 64)
	s, _ := strconv.ParseInt(system, 10, 64)
	return time.Duration(u+s) * tick
}
