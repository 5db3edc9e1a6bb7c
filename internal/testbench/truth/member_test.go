package truth_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// The ways of a member.
const (
	accepting = "accepting"
	refusing  = "refusing"      // of the thorn
	late      = "refusing late" // the same, after a while
	slow      = "slow"
	silent    = "silent"
)

var ways = []string{accepting, accepting, accepting, refusing, late, slow, silent}

// member is a proxy. It comes back to one discovery or the other when its stream ends.
type member struct {
	mesh            *mesh
	name, namespace string
	whole           bool // it speaks state of the world

	mu       sync.Mutex
	way      string
	changed  chan struct{} // closed when the way changes
	sessions []*session    // so far
	leave    func()        // nil while it is not there
	memory   *proxy.Memory
	holding  holding
}

// session is a stream of a member, or the attempt at one.
type session struct {
	discovery string
	began     time.Time
	ended     time.Time // zero while it lasts
	served    bool      // it has had an answer to all that it asked for
	accepted  time.Time // when it accepted something last
	has       map[string]int
}

func (m *member) id() string { return m.name + "." + m.namespace }

// come connects the member, with what it had before or with nothing.
func (m *member) come(at int, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leave != nil {
		return
	}
	if fresh || m.memory == nil {
		m.memory, m.holding = proxy.NewMemory(), holding{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.keepConnected(ctx, at)
	}()
	m.leave = func() { cancel(); <-ended }
}

// vanish disconnects the member.
func (m *member) vanish() {
	m.mu.Lock()
	leave := m.leave
	m.leave = nil
	m.mu.Unlock()
	if leave != nil {
		leave()
	}
}

func (m *member) behave(way string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.way = way
	close(m.changed)
	m.changed = make(chan struct{})
}

// keepConnected connects to one discovery after the other until the context ends.
func (m *member) keepConnected(ctx context.Context, at int) {
	for ctx.Err() == nil {
		m.stream(ctx, m.mesh.discoveries[at%len(m.mesh.discoveries)])
		at++
		wait.For(ctx, time.Duration(20+rand.IntN(200))*time.Millisecond)
	}
}

// stream connects until the stream ends.
func (m *member) stream(ctx context.Context, d *discovery) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer d.onDeath(cancel)() // a proxy that waits does not read
	s := &session{discovery: d.name, began: time.Now()}
	m.mu.Lock()
	s.has = m.holding.ports(m.mesh.marks)
	m.sessions = append(m.sessions, s)
	m.mu.Unlock()
	_ = proxy.Run(ctx, proxy.Options{
		Address: d.xds, Node: &corev3.Node{Id: fmt.Sprintf("sidecar~10.0.0.1~%s~%s.svc.cluster.local", m.id(), m.namespace)}, Incremental: !m.whole,
		Heard: func(proxy.Response) {}, Served: func(time.Time) { m.note(func() { s.served = true }) },
		Judge: func(ctx context.Context, o proxy.Offer) error { return m.judge(ctx, s, o) }, Memory: m.memory,
	})
	m.note(func() { s.ended = time.Now() })
}

func (m *member) note(what func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	what()
}

var (
	errThorn   = errors.New("this has a thorn")
	errLeaving = errors.New("the proxy leaves")
)

// judge takes as long for an offer as the member's way is.
func (m *member) judge(ctx context.Context, s *session, o proxy.Offer) error {
	for {
		way, changed := m.present()
		longest := time.Duration(0)
		switch way {
		case silent:
			longest = time.Hour
		case slow:
			longest = time.Duration(rand.IntN(150)) * time.Millisecond
		case late:
			longest = time.Duration(rand.IntN(800)) * time.Millisecond
		}
		if passed, err := pause(ctx, longest, changed); err != nil {
			return err
		} else if !passed {
			continue // it behaves in another way now
		}
		if (way == refusing || way == late) && m.hurts(o) {
			return errThorn
		}
		m.accept(s, o)
		return nil
	}
}

// hurts reports whether an offer has a thorn that the member does not have yet.
func (m *member) hurts(o proxy.Offer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return o.Type == proxy.Clusters && slices.ContainsFunc(o.Names, func(name string) bool {
		return strings.Contains(name, "|"+thorn+".") && !m.holding[proxy.Clusters][name]
	})
}

func (m *member) present() (way string, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.way, m.changed
}

// pause reports whether a time has passed before a channel was closed.
func pause(ctx context.Context, d time.Duration, closed <-chan struct{}) (passed bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, errLeaving
	case <-closed:
		return false, nil
	case <-timer.C:
		return true, nil
	}
}

func (m *member) accept(s *session, o proxy.Offer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holding.accept(o, m.whole)
	s.has, s.accepted = m.holding.ports(m.mesh.marks), time.Now()
}

// state is what is known of a member at a moment.
type state struct {
	id, namespace, way string
	whole, here        bool
	sessions           []session // the latest last
}

// keptSessions is how many of its latest sessions a state has.
const keptSessions = 5

func (m *member) now() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := state{id: m.id(), namespace: m.namespace, way: m.way, whole: m.whole, here: m.leave != nil}
	for _, one := range m.sessions[max(0, len(m.sessions)-keptSessions):] {
		s.sessions = append(s.sessions, *one)
	}
	return s
}

// last is the latest session; of nobody if there was none.
func (s state) last() session {
	if len(s.sessions) == 0 {
		return session{}
	}
	return s.sessions[len(s.sessions)-1]
}

// of is the session that a row of the database is about. The clock is the same.
func (s state) of(p row) (session, bool) {
	for _, one := range slices.Backward(s.sessions) {
		if one.discovery == p.Discovery && !one.began.After(p.Connected) {
			return one, true
		}
	}
	return session{}, false
}

func (s state) String() string {
	how := "delta"
	if s.whole {
		how = "sotw"
	}
	parts := []string{fmt.Sprintf("%s (%s, %s)", s.id, s.way, how)}
	for _, one := range s.sessions {
		ended := "now"
		if !one.ended.IsZero() {
			ended = clock(one.ended)
		}
		parts = append(parts, fmt.Sprintf("with %s from %s to %s accepted at %s %v", one.discovery, clock(one.began), ended, clock(one.accepted), one.has))
	}
	return strings.Join(parts, "; ")
}

func clock(t time.Time) string { return t.Format("04:05.000") }
