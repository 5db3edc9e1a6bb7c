// Package envoylog passes on what Envoy writes, also when another agent started that Envoy.
//
// Envoy outlives its agent, so it writes to two files in the state folder, which the next agent
// continues to read. A pipe would not do, because its reader may be away. A full pipe blocks
// Envoy's threads; if it is set not to block, Envoy stops logging for good at the first line that
// does not fit (1.40: its stream goes bad). A punched hole frees the room of what was read, and the
// first byte that is not zero is where the next agent begins.
package envoylog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// pollInterval is how often the files are read where the kernel does not report changes.
const pollInterval = 200 * time.Millisecond

// Log is the output of an agent's Envoys.
type Log struct {
	log   *slog.Logger
	pass  sync.Mutex // held while lines are passed on, to keep their order
	files [2]*file
}

// Open opens the log in a folder. Lines go to the two writers; a nil writer discards them.
func Open(folder string, stdout, stderr io.Writer, log *slog.Logger) (*Log, error) {
	l := &Log{log: log}
	for i, each := range []struct {
		name string
		to   io.Writer
	}{{"stdout", stdout}, {"stderr", stderr}} {
		f, err := openFile(filepath.Join(folder, each.name), each.to)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the log of Envoy: %w", err), l.Close())
		}
		l.files[i] = f
		if f.skipped > 0 {
			log.Warn("Envoy wrote much while no agent was here; the older part is left out", "file", f.Name(), "bytes", f.skipped)
		}
	}
	return l, nil
}

// Close closes the agent's files. Processes that inherited them from Files keep writing.
func (l *Log) Close() error {
	var failed error
	for _, f := range l.files {
		if f != nil {
			failed = errors.Join(failed, f.Close())
		}
	}
	return failed
}

// Files returns the files for Envoy to write to.
func (l *Log) Files() (stdout, stderr *os.File) { return l.files[0].File, l.files[1].File }

// Own gives the files to another account, which may then reopen them as /dev/stdout and
// /dev/stderr.
func (l *Log) Own(uid, gid int) error {
	return errors.Join(l.files[0].Chown(uid, gid), l.files[1].Chown(uid, gid))
}

// Run passes lines on as they are written, until the context ends.
func (l *Log) Run(ctx context.Context) error {
	events, stop := l.watch()
	defer stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	ticks := ticker.C
	if events != nil {
		ticks = nil
	}
	for {
		l.CatchUp()
		select {
		case <-ctx.Done():
			return nil
		case <-events:
		case <-ticks:
		}
	}
}

// watch reports writes on a channel. The channel is nil if the kernel refuses another watch; then
// Run polls.
func (l *Log) watch() (<-chan fsnotify.Event, func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	for _, f := range l.files {
		if err := watcher.Add(f.Name()); err != nil {
			watcher.Close()
			return nil, func() {}
		}
	}
	return watcher.Events, func() { watcher.Close() }
}

// CatchUp passes on every complete line that has been written so far.
func (l *Log) CatchUp() {
	l.pass.Lock()
	defer l.pass.Unlock()
	for _, f := range l.files {
		if err := f.take(); err != nil {
			l.log.Error("Envoy's log cannot be read", "file", f.Name(), "error", err)
		}
	}
}

// Clear passes on the rest and empties the files. No process may be writing to them.
func (l *Log) Clear() {
	l.CatchUp()
	l.pass.Lock()
	defer l.pass.Unlock()
	for _, f := range l.files {
		if err := f.empty(); err != nil {
			l.log.Error("Envoy's log cannot be truncated", "file", f.Name(), "error", err)
		}
	}
}
