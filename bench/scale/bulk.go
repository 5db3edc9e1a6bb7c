package main

import (
	"context"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// bulk is one transaction with many rows.
type bulk struct {
	Rows     int     `json:"rows"`
	Last     float64 `json:"last_proxy_ms"` // until it has all of it
	Median   float64 `json:"median_proxy_ms"`
	Write    float64 `json:"write_ms"` // COMMIT only, if there is one
	Messages int64   `json:"messages"`
	MB       float64 `json:"mb"`
	// Pushes is the largest number of messages of one type to a proxy: 1 means that no intermediate
	// state was pushed.
	Pushes int64     `json:"pushes_a_proxy_and_type"`
	CPU    float64   `json:"server_cpu_s"`
	Peak   float64   `json:"server_peak_mb"`
	Use    usage.Use `json:"machine"`
}

// bulk gives the rows new content for each transaction, so that all of them change.
func (r *run) bulk(ctx context.Context) error {
	for i := range r.Bulks {
		c := manyRows(&r.World, r.who(), r.Rows, i)
		m := r.begin()
		t, err := r.change(ctx, c, nil)
		if err != nil {
			return err
		}
		now, pid := r.crowd.totals(), r.server.pid()
		r.result.Bulk = append(r.result.Bulk, bulk{
			Rows: len(c.resources), Last: millis(t.last), Median: millis(t.median), Write: millis(t.write),
			Messages: now.messages - m.totals.messages, MB: megabytes(now.bytes - m.totals.bytes), Pushes: now.most(m.totals),
			CPU: (usage.CPUOf(pid) - m.cpu).Seconds(), Peak: megabytes(usage.MemoryOf(pid).Peak), Use: usage.Now().Since(m.machine),
		})
	}
	return nil
}
