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

// Line is one line of what an agent and its Envoy have said.
type Line struct {
	At        time.Time `json:"at"`
	From      string    `json:"from"`
	Level     string    `json:"level,omitempty"`
	Component string    `json:"component,omitempty"` // of Envoy
	Text      string    `json:"text"`
}

// Who writes lines.
const (
	FromAgent  = "agent"
	FromEnvoy  = "envoy"
	FromAccess = "access" // Envoy's standard output, where access logs go
)

// Levels are those of lines, from the least important on. They are Envoy's, and the agent's are among them.
var Levels = []string{"trace", "debug", "info", "warning", "error", "critical"}

const (
	// keepBytes bounds what is remembered of each writer, so that one that says much leaves the others theirs.
	keepBytes = 256 << 10
	// keepLine is how much of one line is remembered.
	keepLine = 4 << 10
	// lineCost is about what a line takes beside its text.
	lineCost = 128
)

// Lines remembers the last lines. Its zero value is ready, and is safe for concurrent use.
type Lines struct {
	mu      sync.Mutex
	writers map[string]*writer
	next    uint64
	changed chan struct{} // closed when there is another line; nil if nobody waits
}

// Writer is where somebody's lines are written to.
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

// writer is the end of what one has written.
type writer struct {
	lines   *Lines
	from    string
	kept    []numbered
	bytes   int
	partial []byte
	last    Line // which gives its level to lines that have none, such as those of a stack
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
		w.partial = append(w.partial, line[:min(len(line), max(0, keepLine-len(w.partial)))]...)
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
	for w.bytes += lineCost + len(text); w.bytes > keepBytes; w.kept = w.kept[1:] {
		w.bytes -= lineCost + len(w.kept[0].Text)
	}
	if w.lines.changed != nil {
		close(w.lines.changed)
		w.lines.changed = nil
	}
}

var (
	// envoyLine is [time][thread][level][component] and, as a rule, [file:line].
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

// level is the name that Envoy has for one: the agent says warn.
func level(name string) string {
	if name == "warn" {
		return "warning"
	}
	return name
}

// Filter chooses lines. The zero value chooses all.
type Filter struct {
	From      string
	Level     string // the least important one that is wanted
	Component string
}

func (f Filter) wants(l Line) bool {
	return (f.From == "" || f.From == l.From) && (f.Component == "" || f.Component == l.Component) &&
		(f.Level == "" || slices.Index(Levels, l.Level) >= slices.Index(Levels, f.Level))
}

// Last are the last n lines that a filter chooses, or as many as are remembered.
func (l *Lines) Last(n int, f Filter) (all []Line) {
	lines, _, _ := l.from(0, f)
	for _, line := range lines[max(0, len(lines)-n):] {
		all = append(all, line.Line)
	}
	return all
}

// Follow is the last n, and then each that comes, until the context ends. Whoever is too slow misses some.
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

// from are the lines from a number on, the number after them, and what is closed when there are more.
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
