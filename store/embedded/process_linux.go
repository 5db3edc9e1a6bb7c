package embedded

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// attributes let a server go down in good order with its parent, by Postgres' fast shutdown. A
// server of a test has nothing to save, and shuts down immediately.
func attributes(who account, fast bool) *syscall.SysProcAttr {
	death := syscall.SIGINT
	if fast {
		death = syscall.SIGQUIT
	}
	return &syscall.SysProcAttr{Credential: who.credential(), Pdeathsig: death}
}

// servesFrom says whether the process is a server on that data.
func servesFrom(pid int, data string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(line, []byte("postgres")) && bytes.Contains(line, []byte(data))
}
