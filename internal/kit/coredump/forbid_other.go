//go:build !linux

package coredump

import (
	"fmt"
	"syscall"
)

// Forbid disables core dumps of this process and its children.
func Forbid() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps (RLIMIT_CORE): %w; --%s goes without", err, AllowFlag)
	}
	return nil
}
