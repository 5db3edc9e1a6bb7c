//go:build !linux

package embedded

import "syscall"

// attributes are whom the server runs as. There is no parent-death signal here: after a kill -9 of
// the parent the server stays and the next start names it.
func attributes(who account, _ bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: who.credential()}
}

// servesFrom trusts the lock file as far as its process lives.
func servesFrom(pid int, _ string) bool {
	return syscall.Kill(pid, 0) == nil
}
