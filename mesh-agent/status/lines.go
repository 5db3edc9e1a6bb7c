package status

import (
	"bytes"
	"context"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Line is a line that an agent or its Envoy has logged.
type Line struct {
	At        time.Time `json:"at"`
	From      string    `json:"from"`
	Level     string    `json:"level,omitempty"`
	Component string    `json:"component,omitempty"` // Envoy's logger
	Text      string    `json:"text"`
}

// The values of Line.From.
const (
	FromAgent  = "agent"
	FromEnvoy  = "envoy"
	FromAccess = "access" // Envoy's standard output, where access logs go
)

// Levels are the log levels in ascending order: Envoy's, which include the agent's.
var Levels = []string{"trace", "debug", "info", "warning", "error", "critical"}

const (
	// maxWriterBytes bounds what is kept of each writer, so that a noisy one does not displace the
	// others.
	maxWriterBytes = 256 << 10
	// maxLineBytes is how much of a line is kept.
	maxLineBytes = 4 << 10
	// lineOverhead is about what a line takes beside its text.
	lineOverhead = 128
)

// Lines keeps the last lines in memory. The zero value is ready to use, and safe for concurrent
// use.
type Lines struct {
	mu      sync.Mutex
	writers map[string]*writer
	next    uint64
	changed chan struct{} // closed when there is another line; nil if nobody waits
}

// Writer returns the writer for lines from a source.
func (l *Lines) Writer(from string) io.Writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writers == nil {
		l.writers = map[string]*writer{}
	}
	if l.writers[from] == nil {
		l.writers[from] = &writer{lines: l, from: from}
	}
	return l.writers[from]
}

// writer keeps the last lines of one source.
type writer struct {
	lines   *Lines
	from    string
	kept    []numbered
	bytes   int
	partial []byte
	last    Line // lines without a level, as of a stack trace, take its level
}

type numbered struct {
	Line
	number uint64
}

// Write never fails.
func (w *writer) Write(p []byte) (int, error) {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	for rest := p; ; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		w.partial = append(w.partial, line[:min(len(line), max(0, maxLineBytes-len(w.partial)))]...)
		if !found {
			return len(p), nil
		}
		w.add(string(w.partial))
		w.partial, rest = w.partial[:0], after
	}
}

func (w *writer) add(text string) {
	line := parse(w.from, text)
	if line.Level == "" {
		line.Level, line.Component = w.last.Level, w.last.Component
	}
	line.At = time.Now()
	w.last = line
	w.kept = append(w.kept, numbered{line, w.lines.next})
	w.lines.next++
	for w.bytes += lineOverhead + len(text); w.bytes > maxWriterBytes; w.kept = w.kept[1:] {
		w.bytes -= lineOverhead + len(w.kept[0].Text)
	}
	if w.lines.changed != nil {
		close(w.lines.changed)
		w.lines.changed = nil
	}
}

var (
	// envoyLine matches [time][thread][level][component], usually followed by [file:line].
	envoyLine = regexp.MustCompile(`^\[[^\]]*\]\[\d+\]\[(\w+)\]\[(\w+)\]`)
	agentLine = regexp.MustCompile(`\blevel"?[=:]"?(\w+)`)
)

func parse(from, text string) Line {
	line := Line{From: from, Text: text}
	switch from {
	case FromEnvoy:
		if found := envoyLine.FindStringSubmatch(text); found != nil {
			line.Level, line.Component = found[1], found[2]
		}
	case FromAgent:
		if found := agentLine.FindStringSubmatch(text); found != nil {
			line.Level = strings.ToLower(found[1])
		}
	case FromAccess:
		line.Level = "info"
	}
	line.Level = level(line.Level)
	return line
}

// level returns Envoy's name for a level: the agent's warn is its warning.
func level(name string) string {
	if name == "warn" {
		return "warning"
	}
	return name
}

// Filter selects lines. The zero value selects all.
type Filter struct {
	From      string
	Level     string // the lowest level that is wanted
	Component string
}

func (f Filter) wants(l Line) bool {
	return (f.From == "" || f.From == l.From) && (f.Component == "" || f.Component == l.Component) &&
		(f.Level == "" || slices.Index(Levels, l.Level) >= slices.Index(Levels, f.Level))
}

// Last returns the last n lines that match, as far as they are kept.
func (l *Lines) Last(n int, f Filter) (all []Line) {
	lines, _, _ := l.from(0, f)
	for _, line := range lines[max(0, len(lines)-n):] {
		all = append(all, line.Line)
	}
	return all
}

// Follow yields the last n lines and then each new one, until the context ends. A slow consumer
// misses some.
func (l *Lines) Follow(ctx context.Context, n int, f Filter) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		lines, next, changed := l.from(0, f)
		lines = lines[max(0, len(lines)-n):]
		for {
			for _, line := range lines {
				if !yield(line.Line) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			lines, next, changed = l.from(next, f)
		}
	}
}

// from returns the lines from a number on, the next number, and a channel that is closed when there
// are more.
func (l *Lines) from(number uint64, f Filter) (all []numbered, next uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.writers {
		for i := len(w.kept) - 1; i >= 0 && w.kept[i].number >= number; i-- {
			if f.wants(w.kept[i].Line) {
				all = append(all, w.kept[i])
			}
		}
	}
	slices.SortFunc(all, func(a, b numbered) int { return int(int64(a.number) - int64(b.number)) })
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return all, l.next, l.changed
}
