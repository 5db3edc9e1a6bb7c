package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	client "github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// stand takes what the server says of itself. Removals that were held back wait for the next batch: by
// then the server has sent everything.
func (m *mesh) stand(ctx context.Context, told client.Standing) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.chain.circles
	if err := m.chain.hear(ctx, told); err != nil {
		return err
	}
	if m.told && !maps.Equal(before, m.chain.circles) {
		m.recircle(before)
	}
	m.tellAway()
	return nil
}

// recircle makes anew what comes from registries of the server's that read this server since, or do
// no more.
func (m *mesh) recircle(before map[string]bool) {
	touched := map[kinds.Key]bool{}
	for _, r := range m.has {
		if before[r.Origin()] != m.chain.circular(r.Origin()) {
			m.unindex(r)
			m.index(r)
			m.touch(r, touched)
		}
	}
	m.tell(touched)
}

// up is called when the server has answered.
func (m *mesh) up(client.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silence.Reset(m.patience)
}

// down is called when the server is lost.
func (m *mesh) down(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silence.Stop()
	m.lost = fmt.Errorf("the server %s: %w", m.client.Status().Target, err)
	m.tellAway()
}

// watchSilence has the sink told of a server that takes connections and does not send what it has. The
// returned function ends it.
func (m *mesh) watchSilence(patience time.Duration) (end func()) {
	var running sync.WaitGroup
	over := make(chan struct{})
	m.silence = time.NewTimer(patience)
	running.Go(func() {
		for {
			select {
			case <-m.silence.C:
				m.silent()
			case <-over:
				return
			}
		}
	})
	return func() {
		close(over)
		running.Wait()
		m.silence.Stop()
	}
}

var errSilent = errors.New("it does not answer, or has not sent all that it has: it may be waiting for registries of its own")

func (m *mesh) silent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.client.Status()
	switch {
	case s.LastError != nil:
		return
	case len(s.Unanswered) > 0:
		m.lost = fmt.Errorf("the server %s leaves types unanswered: %s. If it does not serve them, name others with kinds", s.Target, strings.Join(s.Unanswered, ", "))
	default:
		m.lost = errSilent
	}
	m.tellAway()
}

// tellAway tells the sink whether the server can be asked, and whether it is current itself.
func (m *mesh) tellAway() {
	reason, text := m.lost, ""
	if reason == nil {
		reason = m.chain.reason()
	}
	if reason != nil {
		text = reason.Error()
	}
	if m.away != nil && *m.away == text {
		return
	}
	m.away = &text
	m.sink.Away(reason)
}
