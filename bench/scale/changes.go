package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/bench/world"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// changes is the measurement of one kind of change, made one after the other on a quiet system.
type changes struct {
	Scenario string `json:"scenario"`
	Count    int    `json:"count"`

	// Last and Median are the times from just before the change took effect until the last proxy,
	// or half of them, had it.
	Last   spread `json:"last_proxy"`
	Median spread `json:"median_proxy"`
	Write  spread `json:"write"` // COMMIT only, if there is one
	Floor  spread `json:"floor_last"`
	// Per change, for all proxies together.
	Messages float64 `json:"messages"`
	MB       float64 `json:"mb"`
	CPU      float64 `json:"server_cpu_s"`

	Peak float64   `json:"server_peak_mb"`
	Load float64   `json:"proxies_cpu_s"` // of the proxies themselves, per change
	Use  usage.Use `json:"machine"`

	LastTimes  []float64 `json:"last_proxy_times_ms"`
	FloorTimes []float64 `json:"floor_last_times_ms"`
}

// times are the times of one change.
type times struct{ last, median, write, floor time.Duration }

// changes measures one kind of change.
func (r *run) changes(scenario string, number func(*world.World, int) change) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := r.ensureFloor(ctx); err != nil {
			return err
		}
		for i := range r.Warmup {
			if _, err := r.change(ctx, number(&r.World, i), nil); err != nil {
				return err
			}
		}
		m := r.begin()
		var all []times
		for i := range r.Changes {
			t, err := r.change(ctx, number(&r.World, r.Warmup+i), m)
			if err != nil {
				return fmt.Errorf("change %d: %w", i, err)
			}
			all = append(all, t)
		}
		r.result.Changes = append(r.result.Changes, m.end(scenario, all))
		return nil
	}
}

func (r *run) ensureFloor(ctx context.Context) (err error) {
	if r.Floor && r.floor == nil {
		r.floor, err = startFloor(ctx, r.Proxies)
	}
	return err
}

// change makes one change, waits until all proxies have it, and then has the floor send as much.
func (r *run) change(ctx context.Context, c change, m *meter) (t times, err error) {
	timing.Settle()
	before, load := r.crowd.totals(), usage.OwnCPU()
	w := r.crowd.expect(c)
	start, err := r.server.writer.write(ctx, c)
	if err != nil {
		return t, err
	}
	t.write = time.Since(start)
	took, err := r.crowd.wait(ctx, w, start)
	if err != nil {
		return t, err
	}
	t.last, t.median = timing.Percentile(took, 100), timing.Percentile(took, 50)
	if m == nil {
		return t, nil
	}
	m.load += usage.OwnCPU() - load
	if r.floor != nil {
		after := r.crowd.totals()
		messages := after.messages - before.messages
		each := max(1, int(messages)/r.Proxies)
		timing.Settle()
		took, err := r.floor.send(each, int((after.bytes-before.bytes)/int64(each*r.Proxies)))
		if err != nil {
			return t, err
		}
		t.floor = timing.Percentile(took, 100)
	}
	return t, nil
}

// meter measures the resources that a scenario uses.
type meter struct {
	run     *run
	machine usage.Time
	totals  totals
	cpu     time.Duration // of the server
	load    time.Duration // of the proxies
}

func (r *run) begin() *meter {
	pid := r.server.pid()
	if pid != 0 {
		_ = usage.ForgetPeak(pid) // the peak of another user's process cannot be reset, and stays that of its whole life
	}
	return &meter{run: r, machine: usage.Now(), totals: r.crowd.totals(), cpu: usage.CPUOf(pid)}
}

func (m *meter) end(scenario string, all []times) changes {
	pick := func(of func(times) time.Duration) []time.Duration {
		picked := make([]time.Duration, len(all))
		for i, t := range all {
			picked[i] = of(t)
		}
		return picked
	}
	last, floor := pick(func(t times) time.Duration { return t.last }), pick(func(t times) time.Duration { return t.floor })
	pid, now, n := m.run.server.pid(), m.run.crowd.totals(), float64(len(all))
	return changes{
		Scenario: scenario, Count: len(all), Last: spreadOf(last), Floor: spreadOf(floor),
		Median: spreadOf(pick(func(t times) time.Duration { return t.median })), Write: spreadOf(pick(func(t times) time.Duration { return t.write })),
		Messages: float64(now.messages-m.totals.messages) / n, MB: float64(now.bytes-m.totals.bytes) / n / megabyte,
		CPU: (usage.CPUOf(pid) - m.cpu).Seconds() / n, Load: m.load.Seconds() / n,
		Peak: megabytes(usage.MemoryOf(pid).Peak), Use: usage.Now().Since(m.machine),
		LastTimes: allMillis(last), FloorTimes: allMillis(floor),
	}
}
