package scrape

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// targetTimer limits how long a target may keep the page waiting. Only time spent waiting for the
// target counts, not time spent on other targets or on a slow client.
type targetTimer struct {
	within  time.Duration
	left    time.Duration
	timer   *time.Timer
	expired atomic.Bool
}

// newTargetTimer returns a context that ends when the time is used up.
func newTargetTimer(ctx context.Context, within time.Duration) (context.Context, *targetTimer) {
	ctx, cancel := context.WithCancel(ctx)
	p := &targetTimer{within: within, left: within}
	p.timer = time.AfterFunc(within, func() { p.expired.Store(true); cancel() })
	p.timer.Stop() // measure lets it run
	context.AfterFunc(ctx, func() { p.timer.Stop() })
	return ctx, p
}

// measure counts the time that do takes.
func (p *targetTimer) measure(do func() error) error {
	began := time.Now()
	p.timer.Reset(max(p.left, 0))
	err := do()
	p.timer.Stop()
	p.left -= time.Since(began)
	return err
}

func (p *targetTimer) reader(body io.Reader) io.Reader { return &timedReader{p, body} }

type timedReader struct {
	*targetTimer

	body io.Reader
}

func (r *timedReader) Read(b []byte) (n int, err error) {
	err = r.measure(func() (err error) {
		n, err = r.body.Read(b)
		return err
	})
	return n, err
}

// explain replaces an error that the timeout caused.
func (p *targetTimer) explain(err error) error {
	if err != nil && p.expired.Load() {
		return fmt.Errorf("it did not answer within %s", p.within)
	}
	return err
}
