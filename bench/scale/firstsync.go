package main

import (
	"context"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// firstSync is the cost of serving all proxies when they connect at the same time.
type firstSync struct {
	Times  []arrival `json:"times"`
	Last   spread    `json:"last_proxy"` // of all rounds
	Median spread    `json:"median_proxy"`
	Peak   float64   `json:"server_peak_mb"` // the peak memory of the server since it started
	Use    usage.Use `json:"machine"`
}

// arrival is the measurement of one round.
type arrival struct {
	Last     float64 `json:"last_proxy_ms"`
	Median   float64 `json:"median_proxy_ms"`
	Messages int64   `json:"messages"`
	MB       float64 `json:"mb"`
	// ByType is the share of each type.
	ByType map[string]share `json:"by_type"`
	CPU    float64          `json:"server_cpu_s"`
	Load   float64          `json:"proxies_cpu_s"`
	Before float64          `json:"server_mb_before"` // with the mesh and no proxy
	Peak   float64          `json:"server_peak_mb"`
	// Floor and FloorCPU are the time and processor time of a bare server that sends as many bytes
	// to as many clients.
	Floor    float64 `json:"floor_last_ms,omitempty"`
	FloorCPU float64 `json:"floor_cpu_s,omitempty"`
}

// share is what was sent of one type.
type share struct {
	Messages int64   `json:"messages"`
	MB       float64 `json:"mb"`
}

// firstSync connects all proxies to a server that has just started. The proxies of the last round
// stay. If the server was not started here, there is only one round.
func (r *run) firstSync(ctx context.Context) error {
	times := r.Syncs
	if r.server.restart == nil {
		times = 1
	}
	found, start := &firstSync{}, usage.Now()
	var last, median []time.Duration
	for range times {
		took, err := r.syncOnce(ctx, found)
		if err != nil {
			return err
		}
		last, median = append(last, timing.Percentile(took, 100)), append(median, timing.Percentile(took, 50))
	}
	found.Last, found.Median, found.Use = spreadOf(last), spreadOf(median), usage.Now().Since(start)
	if r.measures("first-sync") {
		r.result.FirstSync = found
	}
	return nil
}

func (r *run) syncOnce(ctx context.Context, found *firstSync) ([]time.Duration, error) {
	r.leave()
	if r.server.restart != nil {
		if err := r.server.restart(ctx); err != nil {
			return nil, err
		}
	}
	pid := r.server.pid()
	before, cpu, load := usage.MemoryOf(pid), usage.CPUOf(pid), usage.OwnCPU()
	crowd, took, err := join(ctx, r.who(), r.server.address, r.Protocol == "delta", 0, r.Proxies)
	if err != nil {
		return nil, err
	}
	r.crowd = crowd
	t, peak := crowd.totals(), usage.MemoryOf(pid).Peak
	found.Peak = max(found.Peak, megabytes(peak))
	sync := arrival{
		Last: millis(timing.Percentile(took, 100)), Median: millis(timing.Percentile(took, 50)), Messages: t.messages, MB: megabytes(t.bytes),
		ByType: t.byType(), CPU: (usage.CPUOf(pid) - cpu).Seconds(), Load: (usage.OwnCPU() - load).Seconds(), Before: megabytes(before.Now), Peak: megabytes(peak),
	}
	if r.Floor {
		last, cpu, err := syncFloor(ctx, r.Proxies, t.bytes/int64(r.Proxies))
		if err != nil {
			return nil, err
		}
		sync.Floor, sync.FloorCPU = millis(last), cpu.Seconds()
	}
	found.Times = append(found.Times, sync)
	return took, nil
}
