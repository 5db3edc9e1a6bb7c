package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgmesh/pgmesh/bench/world"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// crowd is proxies that connect at the same time, each with its own connection.
type crowd struct {
	who     world.Who
	first   int // the number of the first proxy
	address string
	delta   bool

	stop    context.CancelFunc
	running sync.WaitGroup
	failed  chan error
	counts  []counts // per proxy
	watch   atomic.Pointer[watch]
}

// counts are the messages and bytes sent to a proxy, by type.
type counts [proxy.Types]struct{ messages, bytes atomic.Int64 }

// join connects proxies at the same time, and returns how long each took until it had everything.
func join(ctx context.Context, p world.Who, address string, delta bool, first, count int) (*crowd, []time.Duration, error) {
	c := &crowd{who: p, first: first, address: address, delta: delta, failed: make(chan error, 1), counts: make([]counts, count)}
	connected, stop := context.WithCancel(ctx)
	c.stop = stop
	served := make(chan time.Time, count)
	options, err := c.options(served)
	if err != nil {
		return nil, nil, err
	}
	start := time.Now()
	for _, o := range options {
		c.running.Go(func() {
			if err := proxy.Run(connected, o); err != nil {
				select {
				case c.failed <- err:
				default: // only the first failure is reported
				}
			}
		})
	}
	took, err := c.gather(ctx, served, start)
	if err != nil {
		c.leave()
	}
	return c, took, err
}

func (c *crowd) options(served chan<- time.Time) ([]proxy.Options, error) {
	options := make([]proxy.Options, len(c.counts))
	for i := range options {
		number := c.first + i
		node, err := c.who.Node(number)
		if err != nil {
			return nil, err
		}
		visible := c.who.World.Visible(c.who.Namespace(number))
		options[i] = proxy.Options{
			Address: c.address, Node: node, Incremental: c.delta, Expect: proxy.Expected{Endpoints: visible, VirtualHosts: visible},
			Heard: func(r proxy.Response) { c.receive(i, r) }, Served: func(at time.Time) { served <- at },
		}
	}
	return options, nil
}

func (c *crowd) gather(ctx context.Context, served <-chan time.Time, start time.Time) (took []time.Duration, err error) {
	late := time.NewTimer(changeTimeout)
	defer late.Stop()
	for range c.counts {
		select {
		case at := <-served:
			took = append(took, at.Sub(start))
		case err := <-c.failed:
			return nil, err
		case <-late.C:
			return nil, fmt.Errorf("after %s %d of %d proxies have not been served", changeTimeout, len(c.counts)-len(took), len(c.counts))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	slices.Sort(took)
	return took, nil
}

func (c *crowd) leave() {
	c.stop()
	c.running.Wait()
}

// receive counts a response, and searches it for expected signs.
func (c *crowd) receive(i int, r proxy.Response) {
	n := &c.counts[i][r.Type]
	n.messages.Add(1)
	n.bytes.Add(int64(len(r.Bytes)))
	if w := c.watch.Load(); w != nil {
		w.look(i, r)
	}
}

// watch waits for the signs of a change at all proxies.
type watch struct {
	signs []sign
	due   [][]int // per proxy, how often each sign must still come
	at    []time.Time
	left  atomic.Int64
	over  chan struct{}
}

// expect starts to watch for a change. It must be called before the change is made.
func (c *crowd) expect(ch change) *watch {
	w := &watch{signs: ch.signs, due: make([][]int, len(c.counts)), at: make([]time.Time, len(c.counts)), over: make(chan struct{})}
	w.left.Store(int64(len(c.counts)))
	for i := range w.due {
		for _, s := range w.signs {
			w.due[i] = append(w.due[i], s.due(c.first+i))
		}
	}
	c.watch.Store(w)
	return w
}

func (w *watch) look(i int, r proxy.Response) {
	if !w.at[i].IsZero() {
		return
	}
	missing := false
	for k, s := range w.signs {
		if w.due[i][k] > 0 && slices.Contains(s.types, r.Type) {
			w.due[i][k] -= bytes.Count(r.Bytes, s.mark)
		}
		missing = missing || w.due[i][k] > 0
	}
	if missing {
		return
	}
	w.at[i] = r.At
	if w.left.Add(-1) == 0 {
		close(w.over)
	}
}

// changeTimeout is when a change that has not reached all proxies counts as lost.
const changeTimeout = 2 * time.Minute

// wait returns when all proxies have all signs. It returns the sorted times that this took.
func (c *crowd) wait(ctx context.Context, w *watch, start time.Time) ([]time.Duration, error) {
	late := time.NewTimer(changeTimeout)
	defer late.Stop()
	select {
	case <-w.over:
	case err := <-c.failed:
		return nil, err
	case <-late.C:
		return nil, fmt.Errorf("after %s %d of %d proxies have not been sent the change", changeTimeout, w.left.Load(), len(w.at))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.watch.Store(nil)
	return since(start, w.at), nil
}

// since returns the sorted times since start.
func since(start time.Time, all []time.Time) []time.Duration {
	took := make([]time.Duration, len(all))
	for i, at := range all {
		took[i] = at.Sub(start)
	}
	slices.Sort(took)
	return took
}

// totals are the messages and bytes sent to all proxies so far.
type totals struct {
	messages, bytes int64
	of              [proxy.Types]struct{ messages, bytes int64 }
	each            [][proxy.Types]int64 // messages to each proxy
}

func (c *crowd) totals() totals {
	t := totals{each: make([][proxy.Types]int64, len(c.counts))}
	for i := range c.counts {
		for kind := range c.counts[i] {
			n, of := &c.counts[i][kind], &t.of[kind]
			t.each[i][kind] = n.messages.Load()
			of.messages += t.each[i][kind]
			of.bytes += n.bytes.Load()
		}
	}
	for _, of := range t.of {
		t.messages += of.messages
		t.bytes += of.bytes
	}
	return t
}

// most returns the largest number of messages of one type that a proxy was sent since before.
func (t totals) most(before totals) (most int64) {
	for i := range t.each {
		for kind := range t.each[i] {
			most = max(most, t.each[i][kind]-before.each[i][kind])
		}
	}
	return most
}

func (t totals) byType() map[string]share {
	shares := map[string]share{}
	for kind, of := range t.of {
		if of.messages > 0 {
			shares[proxy.Type(kind).String()] = share{of.messages, megabytes(of.bytes)}
		}
	}
	return shares
}
