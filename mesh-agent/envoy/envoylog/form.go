package envoylog

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

// Formed returns a writer for Envoy's own log, which passes lines on as records of a handler: with
// Envoy's time and level, its component, and where in its source the line is from. A line that does
// not begin as Envoy's do, as of a stack trace, takes the level of the one before.
func Formed(to slog.Handler) io.Writer {
	return &former{to: to.WithAttrs([]slog.Attr{slog.String("from", "envoy")})}
}

type former struct {
	to slog.Handler

	mu      sync.Mutex
	partial []byte
	level   slog.Level
}

// maxFormed is how much of a line is passed on.
const maxFormed = 64 << 10

// Write never fails.
func (f *former) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for rest := p; ; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		f.partial = append(f.partial, line[:min(len(line), maxFormed-len(f.partial))]...)
		if !found {
			return len(p), nil
		}
		f.pass(string(f.partial))
		f.partial, rest = f.partial[:0], after
	}
}

// line matches [time][thread][level][component] [file:line] text; the file may be missing.
var line = regexp.MustCompile(`^\[([^\]]*)\]\[\d+\]\[(\w+)\]\[(\w+)\] (?:\[([^\] ]+:\d+)\] )?`)

// levels are Envoy's, in the words of our own log.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError,
}

func (f *former) pass(text string) {
	if text == "" { // Envoy ends some texts with a line of their own
		return
	}
	found := line.FindStringSubmatch(text)
	if found == nil {
		_ = f.to.Handle(context.Background(), slog.NewRecord(time.Now(), f.level, text, 0)) // there is nowhere to complain
		return
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05.000", found[1], time.Local) //nolint:gosmopolitan // Envoy writes the machine's time
	if err != nil {
		at = time.Now()
	}
	f.level = levels[found[2]]
	r := slog.NewRecord(at, f.level, text[len(found[0]):], 0)
	r.AddAttrs(slog.String("component", found[3]))
	if found[4] != "" {
		r.AddAttrs(slog.String("source", found[4]))
	}
	_ = f.to.Handle(context.Background(), r)
}
