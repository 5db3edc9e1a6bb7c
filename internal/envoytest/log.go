package envoytest

import (
	"bytes"
	"strings"
	"sync"
)

// What Envoy logs (components main and config, level info) at the two points of its start that a test waits for.
var (
	mainLoopRuns   = []byte("starting main dispatch loop")
	workersStarted = []byte("starting workers")
)

// log keeps what Envoy wrote and tells when it reached a point of its start.
type log struct {
	running, ready chan struct{}

	mu                 sync.Mutex
	written            bytes.Buffer
	isRunning, isReady bool
}

func newLog() *log {
	return &log{running: make(chan struct{}), ready: make(chan struct{})}
}

// Write looks at all that was written so far: a line may come in two pieces.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written.Write(p)
	l.isRunning = l.announce(l.isRunning, mainLoopRuns, l.running)
	l.isReady = l.announce(l.isReady, workersStarted, l.ready)
	return len(p), nil
}

func (l *log) announce(before bool, words []byte, event chan struct{}) bool {
	if before || !bytes.Contains(l.written.Bytes(), words) {
		return before
	}
	close(event)
	return true
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.String()
}

// brief leaves out what Envoy says about itself at its start: a hundred lines on the extensions it was built with.
func (l *log) brief() string {
	var kept strings.Builder
	for line := range strings.Lines(l.String()) {
		if !strings.Contains(line, "[info][main]") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
