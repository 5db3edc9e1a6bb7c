package main

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// page is an agent's page of metrics, and what it took to read it.
type page struct {
	lines, bytes         int
	counters, histograms int // series of standard metrics
	lost                 int // that were not counted: there are bounds

	took         time.Duration
	envoy, agent time.Duration // processor time
	peak         int64         // most memory of the agent
}

func (m *mesh) read(ctx context.Context, one *machine) (p page, err error) {
	if err := usage.ForgetPeak(one.agent.Pid()); err != nil {
		return page{}, err
	}
	begun, envoy, agent := time.Now(), usage.CPUOf(one.envoy), usage.CPUOf(one.agent.Pid())
	err = readPage(ctx, one.agent, func(line []byte) error {
		p.lines++
		p.bytes += len(line) + 1
		return p.add(line)
	})
	p.took, p.envoy, p.agent = time.Since(begun), usage.CPUOf(one.envoy)-envoy, usage.CPUOf(one.agent.Pid())-agent
	p.peak = usage.MemoryOf(one.agent.Pid()).Peak
	return p, err
}

func (p *page) add(line []byte) error {
	name, _, _ := bytes.Cut(line, []byte("{"))
	switch {
	case bytes.HasPrefix(line, []byte("envoy_server_stats_overflow_")):
		n, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
		p.lost += n
		return err
	case !bytes.HasPrefix(name, []byte("istio_")):
	case bytes.HasSuffix(name, []byte("_total")):
		p.counters++
	case bytes.HasSuffix(name, []byte("_count")):
		p.histograms++
	}
	return nil
}
