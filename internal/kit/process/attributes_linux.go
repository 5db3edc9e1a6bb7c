package process

import (
	"cmp"
	"syscall"
)

// attributes adds what ties a child to its parent to the attributes that the caller asked for.
func attributes(asked *syscall.SysProcAttr) *syscall.SysProcAttr {
	a := cmp.Or(asked, &syscall.SysProcAttr{})
	a.Setpgid = true
	a.Pdeathsig = cmp.Or(a.Pdeathsig, syscall.SIGKILL)
	return a
}
