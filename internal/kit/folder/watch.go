// Package folder finds the files under a folder, and tells when they change.
package folder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quietFor is how long a directory must be unchanged before it is read. Programs save a file in
	// several steps.
	quietFor = 50 * time.Millisecond
	// longestWait bounds that wait, for a directory that keeps changing.
	longestWait = time.Second
	// poll is for file systems without notifications, and for folders that could not be watched.
	poll = 5 * time.Second
)

// Watch calls look at the start, after each change under the path once it is quiet, and from time
// to time. An error of look ends it.
func Watch(ctx context.Context, path string, log *slog.Logger, look func() error) error {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer events.Close()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		follow(events, path, log)
		if err := look(); err != nil {
			return err
		}
		select {
		case <-events.Events:
			if !quiet(ctx, events) {
				return ctx.Err()
			}
		case err := <-events.Errors:
			log.Warn("changes of a folder may be noticed late", "folder", path, "error", err)
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow watches each folder under the path, and the folder that the path is in, where it may
// appear, or a link may be swapped. It watches where links lead, and drops folders that no link
// leads to any more.
func follow(events *fsnotify.Watcher, path string, log *slog.Logger) {
	wanted := map[string]bool{filepath.Dir(filepath.Clean(path)): true}
	err := walk(path, func(p string, folder bool) error {
		if target, err := filepath.EvalSymlinks(p); folder && err == nil {
			wanted[target] = true
		}
		return nil
	})
	for _, watched := range events.WatchList() {
		if !wanted[watched] {
			_ = events.Remove(watched) // the folder may be gone
		}
	}
	for folder := range wanted {
		err = errors.Join(err, events.Add(folder))
	}
	if err != nil {
		log.Debug("cannot watch a folder; it is looked at every few seconds", "folder", path, "error", err)
	}
}

// quiet waits until nothing changes for a while. It returns false if the context ended.
func quiet(ctx context.Context, events *fsnotify.Watcher) bool {
	limit := time.NewTimer(longestWait)
	defer limit.Stop()
	for {
		still := time.NewTimer(quietFor)
		select {
		case <-events.Events:
			still.Stop()
		case <-still.C:
			return true
		case <-limit.C:
			still.Stop()
			return true
		case <-ctx.Done():
			still.Stop()
			return false
		}
	}
}
