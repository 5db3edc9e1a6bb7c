package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// scenario is something that an Envoy counts, and what it weighs then.
type scenario struct {
	what    string
	sets    int // of series, one for each pair of a caller and a service
	machine *machine
	ask     func(context.Context) error

	without weight // without metrics, after the same requests
	idle    weight // with metrics that have counted next to nothing
	with    weight // when everything has been counted
	page    page
}

// weight is memory in bytes: what Envoy says that it has allocated, and what the kernel says.
type weight struct{ allocated, resident int64 }

// measureMemory has a machine be called by many workloads, and another call many services. Both do
// the same without metrics before, so that whatever else requests leave behind is in both weights.
func measureMemory(ctx context.Context, o *options) (*memoryReport, error) {
	m, err := startMesh(ctx, o)
	if err != nil {
		return nil, err
	}
	defer m.stop()
	start := usage.Now()
	c, err := m.crowd(ctx)
	if err != nil {
		return nil, err
	}
	all := c.scenarios()
	if err := m.countNothing(ctx, all); err != nil {
		return nil, err
	}
	for _, s := range all {
		fmt.Fprintln(os.Stderr, "a machine", s.what, "…")
		if err := s.ask(ctx); err != nil {
			return nil, fmt.Errorf("a machine %s: %w", s.what, err)
		}
		if s.with, err = m.weigh(ctx, s.machine); err != nil {
			return nil, err
		}
		if s.page, err = m.read(ctx, s.machine); err != nil {
			return nil, err
		}
	}
	return &memoryReport{options: o, all: all, use: usage.Now().Since(start)}, nil
}

// countNothing weighs Envoys that have done everything without metrics, and then have metrics.
func (m *mesh) countNothing(ctx context.Context, all []*scenario) (err error) {
	if err := m.enter(ctx, modes[0]); err != nil {
		return err
	}
	for _, s := range all {
		if err := s.ask(ctx); err != nil {
			return fmt.Errorf("a machine %s: %w", s.what, err)
		}
	}
	for _, s := range all {
		if s.without, err = m.weigh(ctx, s.machine); err != nil {
			return err
		}
	}
	if err := m.enter(ctx, modes[1]); err != nil {
		return err
	}
	for _, s := range all {
		if s.idle, err = m.weigh(ctx, s.machine); err != nil {
			return err
		}
	}
	return nil
}

// weigh weighs a machine's Envoy, some time after what it did: it makes histograms ready to be
// shown every five seconds.
func (m *mesh) weigh(ctx context.Context, one *machine) (w weight, err error) {
	if !wait.For(ctx, m.options.rest) {
		return weight{}, ctx.Err()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+one.agent.Admin+"/memory", nil)
	if err != nil {
		return weight{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return weight{}, fmt.Errorf("ask Envoy for its memory: %w", err)
	}
	defer response.Body.Close()
	var said struct{ Allocated string }
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return weight{}, fmt.Errorf("understand what Envoy says of its memory: %w", err)
	}
	w.resident = usage.MemoryOf(one.envoy).Now
	w.allocated, err = strconv.ParseInt(said.Allocated, 10, 64)
	return w, err
}
