package rollout

import (
	"sync"
	"time"
)

// news tells all who wait that a report was taken by this server. Of reports that other servers
// take they learn by looking.
type news struct {
	mu   sync.Mutex
	next chan struct{} // closed with the next report
	last time.Time
}

func newNews() *news { return &news{next: make(chan struct{})} }

// come returns a channel that is closed when there is news from now on.
func (n *news) come() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next
}

// tell says that something was taken.
func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = time.Now()
	close(n.next)
	n.next = make(chan struct{})
}

// since returns when the last news came.
func (n *news) since() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}
