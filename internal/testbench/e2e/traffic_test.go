package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// traffic is a stream of requests at a fixed rate that asks no matter how the answers come: one
// that waited for them would ask less just when something is wrong.
type traffic struct {
	mesh *mesh
	at   string
	host string

	sent, failed atomic.Int64
	first        atomic.Pointer[string] // failure
	// lenient makes failures not count.
	lenient atomic.Bool

	began time.Time
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// connections is how many requests can be under way at once.
const connections = 16

func (m *mesh) startTraffic(host string, perSecond int) *traffic {
	return m.startTrafficAt(address(m.port), host, perSecond)
}

// startTrafficAt asks the Envoy that listens at an address.
func (m *mesh) startTrafficAt(at, host string, perSecond int) *traffic {
	ctx, stop := context.WithCancel(context.Background())
	t := &traffic{mesh: m, at: at, host: host, began: time.Now(), stop: stop}
	due := make(chan struct{}, 10*perSecond)
	t.done.Go(func() { t.pace(ctx, perSecond, due) })
	for range connections {
		t.done.Go(func() {
			for range due {
				if ctx.Err() == nil { // else it has ended, and what is left is not asked
					t.ask()
				}
			}
		})
	}
	m.t.Cleanup(func() { t.end() })
	return t
}

// pace makes requests due at their times, and catches up when it was held up itself.
func (t *traffic) pace(ctx context.Context, perSecond int, due chan<- struct{}) {
	defer close(due)
	every := time.Second / time.Duration(perSecond)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 0; ; {
		for ; time.Duration(n)*every <= time.Since(t.began); n++ {
			select {
			case due <- struct{}{}:
			case <-ctx.Done(): // also where it never catches up, on a busy machine
				return
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (t *traffic) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), longestWait)
	defer cancel()
	lenient := t.lenient.Load()
	err := t.mesh.statusAt(ctx, t.at, t.host, http.StatusOK)
	t.sent.Add(1)
	if err != nil && !lenient && !t.lenient.Load() {
		t.failed.Add(1)
		text := fmt.Sprintf("%s into the traffic: %v", time.Since(t.began).Round(time.Millisecond), err)
		t.first.CompareAndSwap(nil, &text)
	}
}

// await returns after this many more requests, answered or failed.
func (t *traffic) await(requests int64) {
	t.mesh.t.Helper()
	before := t.sent.Load()
	eventually(t.mesh.t, func(context.Context) error {
		if sent := t.sent.Load() - before; sent < requests {
			return fmt.Errorf("%d requests were sent, and not %d", sent, requests)
		}
		return nil
	})
}

// end stops the traffic. It returns the rate, and the first failure, if there was one.
func (t *traffic) end() (perSecond float64, failure string) {
	t.stop()
	perSecond = float64(t.sent.Load()) / time.Since(t.began).Seconds()
	t.done.Wait()
	if first := t.first.Load(); first != nil {
		failure = fmt.Sprintf("%d of %d requests failed, the first %s", t.failed.Load(), t.sent.Load(), *first)
	}
	return perSecond, failure
}
