//go:build unix && !linux

package process

import (
	"cmp"
	"syscall"
)

// attributes cannot tie a child to its parent on this kernel, which has no signal for the parent's
// death: a killed parent leaves its children running.
func attributes(asked *syscall.SysProcAttr) *syscall.SysProcAttr {
	a := cmp.Or(asked, &syscall.SysProcAttr{})
	a.Setpgid = true
	return a
}
