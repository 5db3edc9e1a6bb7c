//go:build unix && !linux

package process

import (
	"cmp"
	"syscall"
)

// Other kernels have no signal for the death of the parent: there a parent that is killed leaves its children behind.
func attributes(asked *syscall.SysProcAttr) *syscall.SysProcAttr {
	a := cmp.Or(asked, &syscall.SysProcAttr{})
	a.Setpgid = true
	return a
}
