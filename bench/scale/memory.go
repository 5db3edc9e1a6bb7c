package main

import (
	"context"
	"errors"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// weight is the memory that idle proxies cost the server.
type weight struct {
	Few     int     `json:"few"` // proxies
	Many    int     `json:"many"`
	Alone   float64 `json:"server_mb_alone"`
	WithFew float64 `json:"server_mb_with_few"`
	With    float64 `json:"server_mb_with_many"`
	Peak    float64 `json:"server_peak_mb"`
	// Each is the additional memory per proxy after the first few, for which the shared parts were
	// translated.
	Each float64 `json:"kb_a_proxy"`
}

// few is the divisor for the number of the first proxies.
const few = 10

// memory measures the server's memory with a tenth of the proxies and with all, each time after
// they were idle for a while.
func (r *run) memory(ctx context.Context) error {
	if r.server.pid() == 0 {
		return errors.New("nothing is known of the server's process: give --pid")
	}
	r.leave()
	if r.server.restart != nil {
		if err := r.server.restart(ctx); err != nil {
			return err
		}
	}
	w := &weight{Few: max(1, r.Proxies/few), Many: r.Proxies, Alone: megabytes(usage.MemoryOf(r.server.pid()).Now)}
	first, light, err := r.weigh(ctx, 0, w.Few)
	if err != nil {
		return err
	}
	defer first.leave()
	rest, heavy, err := r.weigh(ctx, w.Few, w.Many-w.Few)
	if err != nil {
		return err
	}
	defer rest.leave()
	w.WithFew, w.With, w.Peak = megabytes(light), megabytes(heavy), megabytes(usage.MemoryOf(r.server.pid()).Peak)
	w.Each = float64(heavy-light) / 1024 / float64(max(1, w.Many-w.Few))
	r.result.Memory = w
	return nil
}

// weigh connects proxies, leaves all idle, and returns the server's memory.
func (r *run) weigh(ctx context.Context, first, count int) (*crowd, int64, error) {
	c, _, err := join(ctx, r.who(), r.server.address, r.Protocol == "delta", first, count)
	if err != nil {
		return nil, 0, err
	}
	sayf("%d further proxies are connected and left alone for %s …", count, r.Rest)
	select {
	case <-time.After(r.Rest):
		return c, usage.MemoryOf(r.server.pid()).Now, nil
	case <-ctx.Done():
		c.leave()
		return nil, 0, ctx.Err()
	}
}
