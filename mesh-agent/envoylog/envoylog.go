// Package envoylog passes on what an Envoy writes, whichever agent has started that Envoy.
//
// Envoy outlives its agent, so it writes to two files of the state folder, which the next agent goes on reading. They are no pipes, for the
// reader of a pipe may be away: a full pipe stops the threads that write to it, and where it is told not to, Envoy gives its log up for ever at the
// first line that finds no room (1.40: the stream behind it goes bad). What was read is cut out of a file as a hole, so it takes no room, and
// the first byte that is not zero is where the next agent begins.
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

// lookEvery is how often files are looked at where the kernel does not tell of changes.
const lookEvery = 200 * time.Millisecond

// Log is what the Envoys of an agent write.
type Log struct {
	log   *slog.Logger
	pass  sync.Mutex // held while lines are passed on, which keeps their order
	files [2]*file
}

// Open opens the log in a folder. Lines are passed on to the two writers, of which stdout may be nil.
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

// Close closes the files. Those whom Files were given to go on writing.
func (l *Log) Close() error {
	var failed error
	for _, f := range l.files {
		if f != nil {
			failed = errors.Join(failed, f.Close())
		}
	}
	return failed
}

// Files are for Envoy to write to.
func (l *Log) Files() (stdout, stderr *os.File) { return l.files[0].File, l.files[1].File }

// Own makes the files those of another account, who may open them again by the names /dev/stdout and /dev/stderr.
func (l *Log) Own(uid, gid int) error {
	return errors.Join(l.files[0].Chown(uid, gid), l.files[1].Chown(uid, gid))
}

// Run passes lines on as they are written, until the context ends.
func (l *Log) Run(ctx context.Context) error {
	events, stop := l.watch()
	defer stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	ticks := look.C
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

// watch has the kernel tell of writes. Where it does not, because too many are told already, there is nothing to receive from.
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

// CatchUp passes on all whole lines that were written before.
func (l *Log) CatchUp() {
	l.pass.Lock()
	defer l.pass.Unlock()
	for _, f := range l.files {
		if err := f.take(); err != nil {
			l.log.Error("what Envoy writes cannot be read", "file", f.Name(), "error", err)
		}
	}
}

// Clear passes on the rest and empties the files. Nobody may be writing to them.
func (l *Log) Clear() {
	l.CatchUp()
	l.pass.Lock()
	defer l.pass.Unlock()
	for _, f := range l.files {
		if err := f.empty(); err != nil {
			l.log.Error("the log of Envoy cannot be emptied", "file", f.Name(), "error", err)
		}
	}
}
