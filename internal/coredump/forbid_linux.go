package coredump

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Forbid ends core dumps of this process and of those that it starts, and has the kernel refuse its memory to debuggers that are not root's.
func Forbid() error {
	// What collects dumps through a pipe gets them whatever the limit is. The filter goes with the children, too, which the last step does
	// not reach; and comes before it, as the file is root's after that. A /proc that cannot be written to leaves the other two.
	_ = os.WriteFile("/proc/self/coredump_filter", []byte("0"), 0)
	if err := limit(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep other processes from reading this one's memory (PR_SET_DUMPABLE): %w; --%s goes without", err, AllowFlag)
	}
	return nil
}

// limit asks first: under a service manager that has set the limit, changing it may be refused.
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
