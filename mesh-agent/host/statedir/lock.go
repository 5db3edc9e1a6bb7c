// Package statedir looks after the state folder, which keeps what has to outlive an agent.
package statedir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Lock ensures that one agent at a time uses a folder. It is an flock, so the kernel releases it
// however the agent ends.
type Lock struct{ file *os.File }

// Take creates the folder if necessary and locks it.
func Take(folder string) (*Lock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("--state-dir: %w; name a folder that this account may write to", err)
	}
	file, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--state-dir: %w; name a folder that this account may write to", err)
	}
	if err := lock(file); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another mesh-agent%s runs with the state folder %s: end that one, or give this one a folder of its own with --state-dir", holder(file), folder)
		}
		return nil, fmt.Errorf("lock the state folder %s: %w", folder, err)
	}
	if err := errors.Join(file.Truncate(0), write(file, strconv.Itoa(os.Getpid()))); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the state folder %s: %w", folder, err), file.Close())
	}
	return &Lock{file}, nil
}

// Release unlocks the folder.
func (l *Lock) Release() error { return l.file.Close() }

// lockTimeout covers an agent that was killed a moment ago: its lock stays until the kernel has
// cleaned up.
const lockTimeout = time.Second

func lock(file *os.File) error {
	for began := time.Now(); ; time.Sleep(lockTimeout / 100) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Since(began) > lockTimeout {
			return err
		}
	}
}

// holder names the process that wrote its ID into the lock file, for an error message.
func holder(file *os.File) string {
	content, _ := io.ReadAll(file)
	if pid := strings.TrimSpace(string(content)); pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

func write(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text+"\n"), 0)
	return err
}
