package process

import (
	"bytes"
	"strings"
	"sync"
)

// Tail is a writer that keeps the last lines written to it. It is safe for concurrent use.
type Tail struct {
	keep int

	mu      sync.Mutex
	lines   []string
	partial []byte
}

// NewTail returns a Tail that keeps up to keep lines.
func NewTail(keep int) *Tail { return &Tail{keep: keep} }

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, p...)
	for {
		line, rest, found := bytes.Cut(t.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		t.add(string(line))
		t.partial = rest
	}
}

func (t *Tail) add(line string) {
	if len(t.lines) == t.keep {
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, line)
}

// String returns the kept lines, including an unfinished last one.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimRight(strings.Join(t.lines, "\n")+"\n"+string(t.partial), "\n")
}
