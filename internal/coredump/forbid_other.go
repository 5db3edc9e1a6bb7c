//go:build !linux

package coredump

import (
	"fmt"
	"syscall"
)

// Forbid ends core dumps of this process and of those that it starts.
func Forbid() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps (RLIMIT_CORE): %w; --%s goes without", err, AllowFlag)
	}
	return nil
}
