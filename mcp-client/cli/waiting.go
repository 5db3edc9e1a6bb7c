package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// waiting shows on a terminal what a command is doing, if that takes longer than a second. Without a terminal
// it prints nothing.
type waiting struct {
	out  io.Writer // nil without a terminal
	what string

	mu       sync.Mutex
	messages int
	stop     chan struct{}
	once     sync.Once
	stopped  chan struct{}
}

const (
	patience  = time.Second
	tickEvery = 200 * time.Millisecond
)

// wait starts showing a message. The caller must call end.
func (p *Program) wait(what string) *waiting {
	w := &waiting{what: what, stop: make(chan struct{}), stopped: make(chan struct{})}
	if !terminal.Is(p.Err) {
		close(w.stopped)
		return w
	}
	w.out = terminal.Exact(p.Err)
	go w.show(time.Now())
	return w
}

// count counts received messages.
func (w *waiting) count(int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages++
}

func (w *waiting) show(began time.Time) {
	defer close(w.stopped)
	next := time.NewTimer(patience)
	defer next.Stop()
	drawn := false
	for {
		select {
		case <-w.stop:
			if drawn {
				fmt.Fprintf(w.out, "\r%-70s\r", "")
			}
			return
		case <-next.C:
			fmt.Fprintf(w.out, "\r%-70s", w.text(time.Since(began)))
			drawn = true
			next.Reset(tickEvery)
		}
	}
}

func (w *waiting) text(since time.Duration) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf("%s  %d s", w.what, int(since.Seconds()))
	if w.messages > 0 {
		text += fmt.Sprintf("  %d messages", w.messages)
	}
	return text
}

// end removes the message.
func (w *waiting) end() {
	w.once.Do(func() { close(w.stop) })
	<-w.stopped
}
