//go:build unix && !linux

package process

import "syscall"

// Other kernels have no signal for the death of the parent: there a parent that is killed leaves its children behind.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
