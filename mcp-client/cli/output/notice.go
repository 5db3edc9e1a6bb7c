package output

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// Notice is a line on the terminal that says what a command is doing, if that takes longer than a
// second. Without a terminal it prints nothing.
type Notice struct {
	out  io.Writer // nil without a terminal
	what string

	mu       sync.Mutex
	messages int
	stop     chan struct{} // closed by End
	once     sync.Once
	stopped  chan struct{} // closed when nothing of the notice is left on the terminal
}

const (
	shownAfter   = time.Second // what is faster leaves the terminal alone
	rewriteEvery = 200 * time.Millisecond
)

// Notice begins a notice. The caller must end it before anything else is printed.
func (p *Printer) Notice(what string) *Notice {
	n := &Notice{what: what, stop: make(chan struct{}), stopped: make(chan struct{})}
	if !terminal.Is(p.Err) {
		close(n.stopped)
		return n
	}
	n.out = terminal.Exact(p.Err)
	go n.show(time.Now())
	return n
}

// Count counts a received message, whose size does not matter here.
func (n *Notice) Count(int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.messages++
}

func (n *Notice) show(began time.Time) {
	defer close(n.stopped)
	next := time.NewTimer(shownAfter)
	defer next.Stop()
	drawn := false
	for {
		select {
		case <-n.stop:
			if drawn {
				fmt.Fprintf(n.out, "\r%-70s\r", "")
			}
			return
		case <-next.C:
			fmt.Fprintf(n.out, "\r%-70s", n.text(time.Since(began)))
			drawn = true
			next.Reset(rewriteEvery)
		}
	}
}

func (n *Notice) text(since time.Duration) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := fmt.Sprintf("%s  %d s", n.what, int(since.Seconds()))
	if n.messages > 0 {
		text += fmt.Sprintf("  %d messages", n.messages)
	}
	return text
}

// End removes the line.
func (n *Notice) End() {
	n.once.Do(func() { close(n.stop) })
	<-n.stopped
}
