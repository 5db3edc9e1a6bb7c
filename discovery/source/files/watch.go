package files

import (
	"context"
	"fmt"
	"log/slog"
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
	defer events.Close() //nolint:errcheck // only ever closes descriptors
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

// follow watches each folder under the path; what is watched already stays so.
func follow(events *fsnotify.Watcher, path string, log *slog.Logger) {
	err := walk(path, func(p string, folder bool) error {
		if !folder {
			return nil
		}
		return events.Add(p)
	})
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
