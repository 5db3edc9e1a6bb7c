package embedded

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// layout is where a server's files are.
type layout struct {
	base   string // what people name
	socket string // a directory of its own, for the names of Unix sockets are limited to about 100 bytes
}

func (l layout) data() string         { return filepath.Join(l.base, "data") }
func (l layout) passwordFile() string { return filepath.Join(l.base, "password") }
func (l layout) log() string          { return filepath.Join(l.base, "postgres.log") }

// prepare creates the directories and gives them to the account.
func prepare(wanted string, who account, log *slog.Logger) (layout, error) {
	base, err := baseDir(wanted, who, log)
	if err != nil {
		return layout{}, err
	}
	socket, err := os.MkdirTemp("/tmp", "pgmesh-socket-")
	if err != nil {
		return layout{}, fmt.Errorf("making a directory for the socket of Postgres: %w", err)
	}
	for _, dir := range []string{base, socket} {
		if err := who.own(dir); err != nil {
			return layout{}, fmt.Errorf("giving %s to the account of Postgres: %w", dir, err)
		}
	}
	return layout{base: base, socket: socket}, nil
}

func baseDir(wanted string, who account, log *slog.Logger) (string, error) {
	if wanted == "" {
		return os.MkdirTemp("/tmp", "pgmesh-data-")
	}
	dir, err := filepath.Abs(wanted)
	if err != nil {
		return "", err
	}
	if !who.reaches(filepath.Dir(dir)) {
		dir = fmt.Sprintf("/var/tmp/pgmesh-%x", sha256.Sum256([]byte(dir)))[:len("/var/tmp/pgmesh-")+12]
		log.Info("the account of Postgres cannot reach the wanted data directory: using another", "wanted", wanted, "using", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the data directory of Postgres: %w", err)
	}
	return dir, ownedBy(dir, who)
}

func ownedBy(dir string, who account) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if info.IsDir() && (owner == who.uid || owner == uint32(os.Geteuid())) {
		return nil
	}
	return fmt.Errorf("the data directory %s belongs to user %d: remove it or name another", dir, owner)
}

// predecessorTimeout is how long an earlier server may take to end.
const predecessorTimeout = 20 * time.Second

// awaitPredecessor waits for an earlier server that is still ending, perhaps because its parent was
// killed, and removes a stale PID file: the process id may belong to another process by now, and
// Postgres would refuse to start.
func (l layout) awaitPredecessor(ctx context.Context) error {
	path := filepath.Join(l.data(), "postmaster.pid")
	ctx, cancel := context.WithTimeout(ctx, predecessorTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		content, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		first, _, _ := strings.Cut(string(content), "\n")
		pid, err := strconv.Atoi(first)
		if err != nil || !servesFrom(pid, l.data()) {
			return os.RemoveAll(path)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("another Postgres (process %d) runs on the data in %s: stop it first", pid, l.base)
		}
	}
}
