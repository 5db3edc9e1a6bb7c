// Package usage reads what measurements need from the kernel: how busy the machine was, and what a
// process used. Without /proc everything is zero.
package usage

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Time is the time that the processors have spent since boot, in ticks.
type Time struct{ all, idle, stolen uint64 }

// Now reads the current times.
func Now() Time {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Time{}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var t Time
	for i, field := range strings.Fields(line)[1:] {
		ticks, _ := strconv.ParseUint(field, 10, 64)
		switch i {
		case 3, 4: // idle, and idle while waiting for a disk
			t.idle += ticks
		case 7:
			t.stolen = ticks
		case 8, 9: // guests, which are included in users
			continue
		}
		t.all += ticks
	}
	return t
}

// Use is the share of processor time that was used, and stolen by the hypervisor, in percent.
type Use struct {
	Busy   float64 `json:"busy_percent"`
	Stolen float64 `json:"stolen_percent"`
}

// Since returns the use since start: measurements mean little while others have the processors.
func (t Time) Since(start Time) Use {
	all := float64(t.all - start.all)
	if all == 0 {
		return Use{}
	}
	stolen := float64(t.stolen - start.stolen)
	return Use{Busy: 100 * (all - float64(t.idle-start.idle) - stolen) / all, Stolen: 100 * stolen / all}
}

func (u Use) String() string {
	if u == (Use{}) {
		return "unknown"
	}
	return fmt.Sprintf("processors %.0f%% busy, %.0f%% taken away by the host", u.Busy, u.Stolen)
}

// Processors returns the model and the number of processors.
func Processors() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return fmt.Sprintf("%d of %s", runtime.NumCPU(), runtime.GOARCH)
	}
	for line := range strings.Lines(string(text)) {
		if name, model, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return fmt.Sprintf("%d of %s", runtime.NumCPU(), strings.TrimSpace(model))
		}
	}
	return fmt.Sprintf("%d of %s", runtime.NumCPU(), runtime.GOARCH)
}
