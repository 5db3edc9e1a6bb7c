package coredump

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Forbid disables core dumps of this process and its children, and makes the kernel refuse its
// memory to debuggers other than root's.
func Forbid() error {
	// A collector that reads dumps through a pipe ignores RLIMIT_CORE, but not this filter.
	// Children inherit the filter, and not PR_SET_DUMPABLE. Write the filter first, because the
	// file belongs to root once PR_SET_DUMPABLE is 0. If /proc is read-only, the other two measures
	// remain.
	_ = os.WriteFile("/proc/self/coredump_filter", []byte("0"), 0)
	if err := limit(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep other processes from reading this one's memory (PR_SET_DUMPABLE): %w; --%s goes without", err, AllowFlag)
	}
	return nil
}

// limit sets RLIMIT_CORE to 0. It reads the limit first, because a service manager that has set it
// may forbid changing it.
func limit() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err == nil && now.Max == 0 {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps (RLIMIT_CORE): %w; set LimitCORE=0 in its unit, or go without by --%s", err, AllowFlag)
	}
	return nil
}
