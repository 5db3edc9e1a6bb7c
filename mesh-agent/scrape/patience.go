package scrape

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// patience is for how long a target may keep us waiting. Only the time counts in which it is the target that is waited for: while others write, or
// whoever asked reads slowly, it can do nothing.
type patience struct {
	within time.Duration
	left   time.Duration
	timer  *time.Timer
	over   atomic.Bool
}

// newPatience returns a context that ends when patience does.
func newPatience(ctx context.Context, within time.Duration) (context.Context, *patience) {
	ctx, cancel := context.WithCancel(ctx)
	p := &patience{within: within, left: within}
	p.timer = time.AfterFunc(within, func() { p.over.Store(true); cancel() })
	p.timer.Stop()
	context.AfterFunc(ctx, func() { p.timer.Stop() })
	return ctx, p
}

// during counts the time that something takes.
func (p *patience) during(do func() error) error {
	began := time.Now()
	p.timer.Reset(max(p.left, 0))
	err := do()
	p.timer.Stop()
	p.left -= time.Since(began)
	return err
}

func (p *patience) reader(body io.Reader) io.Reader { return &patientReader{p, body} }

type patientReader struct {
	*patience

	body io.Reader
}

func (r *patientReader) Read(b []byte) (n int, err error) {
	err = r.during(func() (err error) {
		n, err = r.body.Read(b)
		return err
	})
	return n, err
}

// explain says that it was too slow, if that is why it failed.
func (p *patience) explain(err error) error {
	if err != nil && p.over.Load() {
		return fmt.Errorf("it did not answer within %s", p.within)
	}
	return err
}
