package envoytest

import (
	"bytes"
	"strings"
	"sync"
)

// What Envoy logs (components main and config, level info) at the two points of its start that
// tests wait for.
var (
	mainLoopRuns   = []byte("starting main dispatch loop")
	workersStarted = []byte("starting workers")
)

// log records Envoy's output. It closes running and ready when Envoy reaches these points of its
// start.
type log struct {
	running, ready chan struct{}

	mu                 sync.Mutex
	written            bytes.Buffer
	isRunning, isReady bool
}

func newLog() *log {
	return &log{running: make(chan struct{}), ready: make(chan struct{})}
}

// Write searches everything written so far, because a line may come in two parts.
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

// brief returns the log without Envoy's own preamble of about a hundred lines on its extensions.
func (l *log) brief() string {
	var kept strings.Builder
	for line := range strings.Lines(l.String()) {
		if !strings.Contains(line, "[info][main]") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
