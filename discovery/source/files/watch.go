package files

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
	// settle is how long a directory has to be quiet before it is read. Programs save a file in several steps.
	settle = 50 * time.Millisecond
	// patience bounds that, for a directory that never is quiet.
	patience = time.Second
	// poll is for file systems that tell nothing, and for folders that could not be watched.
	poll = 5 * time.Second
)

// watch calls look at first, after each change under the path once it has settled, and now and then besides. An error of look ends it.
func watch(ctx context.Context, path string, log *slog.Logger, look func() error) error {
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
			log.Warn("changes of the directory of configuration may be noticed late", "directory", path, "error", err)
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow watches each folder under the path, and the one that the path is in, where it may appear, or a link be swapped. Folders are
// watched by where links lead, and those that no link leads to any more are let go.
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
		log.Debug("cannot watch the directory of configuration; it is looked at every few seconds", "directory", path, "error", err)
	}
}

// quiet waits until nothing has changed for a while; false if the context ended.
func quiet(ctx context.Context, events *fsnotify.Watcher) bool {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		still := time.NewTimer(settle)
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
