package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// machine is a machine of the fleet. live decides what it should be, and a stream, which
// reconnects, registers it.
type machine struct {
	id, address string
	fleet       *fleet

	since  int64
	at     int // index of its discovery
	health machinev1.Health

	line *line // nil while disconnected
}

// line is the registration of a machine from its arrival to its departure, over successive streams.
type line struct {
	cancel context.CancelFunc
	done   chan struct{}
	say    chan *machinev1.RegisterRequest
	left   chan struct{} // closed when the machine has left
	old    atomic.Bool   // replaced by another line; must not reconnect

	mu      sync.Mutex
	machine *machinev1.Machine
	begun   time.Time // zero after the first answer
}

// description returns the present state of the machine, for a stream that is newer than all before
// it.
func (m *machine) description() *machinev1.Machine {
	m.since = max(time.Now().UnixNano(), m.since+1)
	return &machinev1.Machine{
		Id: m.id, Namespace: namespace, Since: m.since, Address: m.address,
		Services: []*machinev1.Service{{Group: group, Health: m.health, Detail: detail(m.health), Probed: true}},
	}
}

func detail(h machinev1.Health) string {
	if h == machinev1.Health_HEALTH_UNHEALTHY {
		return "connection refused"
	}
	return ""
}

// come connects the machine.
func (m *machine) come(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	m.line = &line{cancel: cancel, done: make(chan struct{}), say: make(chan *machinev1.RegisterRequest, 16), left: make(chan struct{}), machine: m.description(), begun: time.Now()}
	go m.fleet.keep(ctx, m.line, m.at)
}

// die disconnects the machine without leaving.
func (m *machine) die() {
	m.line.cancel()
	<-m.line.done
	m.line = nil
}

// leave disconnects the machine in order. Without an answer in time it just dies.
func (m *machine) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	select {
	case m.line.say <- &machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Leaving{Leaving: &machinev1.Leaving{}}}:
	case <-ctx.Done():
	}
	select {
	case <-m.line.left:
	case <-ctx.Done():
		m.fleet.lost.Add(1)
	}
	m.die()
}

const leaveTimeout = 5 * time.Second

// flap changes the machine's health.
func (m *machine) flap() {
	if m.health == machinev1.Health_HEALTH_HEALTHY {
		m.health = machinev1.Health_HEALTH_UNHEALTHY
	} else {
		m.health = machinev1.Health_HEALTH_HEALTHY
	}
	m.line.mu.Lock()
	s := m.line.machine.GetServices()[0]
	s.Health, s.Detail = m.health, detail(m.health)
	m.line.mu.Unlock()
	m.line.say <- &machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Health{
		Health: &machinev1.HealthReport{Group: group, Health: m.health, Detail: detail(m.health)},
	}}
}

// live lets the machine come and go until the context ends.
func (m *machine) live(ctx, lasting context.Context, first time.Duration) {
	o, dice := m.fleet.options, m.fleet.dice()
	if !wait.For(ctx, first) {
		return
	}
	m.come(lasting)
	for wait.For(ctx, time.Duration(dice.ExpFloat64()*float64(o.pause))) {
		m.fleet.acts.Add(1)
		switch n := dice.IntN(100); {
		case m.line == nil:
			m.come(lasting)
		case n < 40:
			m.flap()
		case n < 60:
			m.leave(lasting)
		case n < 75:
			m.die()
		case n < 90: // moves to the other discovery
			m.at = 1 - m.at
			m.die()
			m.come(lasting)
		default: // moves to the other discovery before the old stream ends, which is told to end
			before := m.line
			before.old.Store(true)
			m.at = 1 - m.at
			m.come(lasting)
			m.fleet.over(before)
		}
	}
}

// keep keeps a line connected to a discovery, and to the other when that fails.
func (f *fleet) keep(ctx context.Context, l *line, at int) {
	defer close(l.done)
	for ; ctx.Err() == nil; at = 1 - at {
		if f.stream(ctx, l, f.discoveries[at]) || l.old.Load() {
			return
		}
		wait.For(ctx, time.Duration(100+rand.IntN(400))*time.Millisecond)
	}
}

// stream runs one stream, and reports whether the machine has left.
func (f *fleet) stream(ctx context.Context, l *line, at string) (left bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10))
	if err != nil {
		panic(fmt.Sprintf("fleet: %s: %v", at, err)) // our own address is always valid
	}
	defer conn.Close()
	stream, err := machinev1.NewMachineServiceClient(conn).Register(ctx)
	if err != nil {
		return false
	}
	l.mu.Lock()
	l.machine.Since = max(time.Now().UnixNano(), l.machine.GetSince()+1)
	err = stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Machine{Machine: l.machine}})
	l.mu.Unlock()
	if err != nil {
		return false
	}
	ended := make(chan bool, 1)
	go func() { ended <- f.listen(l, stream) }()
	for {
		select {
		case r := <-l.say:
			if err := stream.Send(r); err != nil {
				return <-ended
			}
		case left := <-ended:
			return left
		}
	}
}

// listen handles answers until the stream ends.
func (f *fleet) listen(l *line, stream machinev1.MachineService_RegisterClient) (left bool) {
	for {
		answer, err := stream.Recv()
		switch {
		case err != nil:
			return left
		case answer.GetRegistered() != nil:
			l.mu.Lock()
			begun := l.begun
			l.begun = time.Time{}
			l.mu.Unlock()
			if !begun.IsZero() {
				f.joined(begun)
			}
		case answer.GetRefused() != nil && !answer.GetRefused().GetPassing():
			f.refused.Store(answer.GetRefused().GetReason())
		case answer.GetLeft() != nil:
			left = true
			close(l.left)
		}
	}
}
