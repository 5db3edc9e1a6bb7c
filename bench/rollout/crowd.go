package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/bench/world"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// crowd is proxies that know which change they have accepted last, and come back to discovery when
// their stream ends.
type crowd struct {
	address string
	stop    context.CancelFunc
	running sync.WaitGroup
	served  chan struct{}

	mu      sync.RWMutex
	size    int
	targets []*target // that have not arrived everywhere
	heard   time.Time // when a proxy was sent something last
}

// target is a change on its way to all proxies.
type target struct {
	number int
	over   chan struct{} // closed when the last proxy has it

	mu   sync.Mutex
	left int
	last time.Time
}

// Changes are told by marks, each as long as the others.
const (
	markStart = "change-"
	digits    = 7
)

func markOf(number int) string { return fmt.Sprintf("%s%0*d", markStart, digits, number) }

// newestMark is the highest number of a mark in a response, 0 for none.
func newestMark(response []byte) (newest int) {
	for {
		at := bytes.Index(response, []byte(markStart))
		if at < 0 || len(response) < at+len(markStart)+digits {
			return newest
		}
		response = response[at+len(markStart):]
		if n, err := strconv.Atoi(string(response[:digits])); err == nil {
			newest = max(newest, n)
		}
	}
}

// joinTimeout is when proxies that have not been served count as lost.
const joinTimeout = 3 * time.Minute

// join connects proxies, and returns when each has everything.
func join(ctx context.Context, c *control, address string, count int) (*crowd, error) {
	all := &crowd{address: address, size: count, served: make(chan struct{}, count)}
	living, stop := context.WithCancel(ctx)
	all.stop = stop
	who := world.Who{World: c.world, Workloads: true, Interception: "REDIRECT"}
	for i := range count {
		node, err := who.Node(i)
		if err != nil {
			all.leave()
			return nil, err
		}
		expected := c.world.Visible(who.Namespace(i))
		all.running.Go(func() { all.live(living, node, expected) })
	}
	late := time.NewTimer(joinTimeout)
	defer late.Stop()
	for n := range count {
		select {
		case <-all.served:
		case <-late.C:
			all.leave()
			return nil, fmt.Errorf("after %s %d of %d proxies are served", joinTimeout, n, count)
		case <-ctx.Done():
			all.leave()
			return nil, ctx.Err()
		}
	}
	return all, nil
}

func (c *crowd) leave() {
	c.stop()
	c.running.Wait()
}

// live keeps one proxy connected.
func (c *crowd) live(ctx context.Context, node *corev3.Node, expected int) {
	has, once := 0, sync.OnceFunc(func() { c.served <- struct{}{} })
	memory := proxy.NewMemory()
	for ctx.Err() == nil {
		_ = proxy.Run(ctx, proxy.Options{
			Address: c.address, Node: node, Incremental: true, Expect: proxy.Expected{Endpoints: expected, VirtualHosts: expected}, Memory: memory,
			Served: func(time.Time) { once() },
			Heard: func(r proxy.Response) {
				before := has
				if r.Type == proxy.Routes || r.Type == proxy.VirtualHosts {
					has = max(has, newestMark(r.Bytes))
				}
				c.hear(before, has, r.At)
			},
		})
		wait.For(ctx, time.Duration(50+rand.IntN(200))*time.Millisecond)
	}
}

// hear notes that a proxy that had one change has another now.
func (c *crowd) hear(before, now int, at time.Time) {
	c.mu.Lock()
	if at.After(c.heard) {
		c.heard = at
	}
	targets := c.targets
	c.mu.Unlock()
	for _, t := range targets {
		if t.number > before && t.number <= now {
			t.arrive(at)
		}
	}
}

func (t *target) arrive(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.After(t.last) {
		t.last = at
	}
	if t.left--; t.left == 0 {
		close(t.over)
	}
}

// expect begins to wait for a change. Call it before the change is made.
func (c *crowd) expect(number int) *target {
	t := &target{number: number, over: make(chan struct{}), left: c.size}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []*target{t}
	for _, other := range c.targets {
		select {
		case <-other.over:
		default:
			all = append(all, other)
		}
	}
	c.targets = all
	return t
}

// arriveTimeout is when a change that has not reached all proxies counts as lost.
const arriveTimeout = 2 * time.Minute

// wait returns when the last proxy was sent the change. It answers at once.
func (t *target) wait(ctx context.Context) (time.Time, error) {
	late := time.NewTimer(arriveTimeout)
	defer late.Stop()
	select {
	case <-t.over:
		return t.last, nil
	case <-late.C:
		return time.Time{}, fmt.Errorf("after %s a change has not reached all proxies", arriveTimeout)
	case <-ctx.Done():
		return time.Time{}, errors.Join(ctx.Err(), errors.New("the measurement was ended"))
	}
}

// quietSince is when a proxy was sent something last.
func (c *crowd) quietSince() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.heard
}
