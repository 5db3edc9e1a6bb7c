package main

import (
	"context"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/bench/bare"
	"github.com/pgmesh/pgmesh/bench/child"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// syncFloor connects as many clients at the same time to a bare server that has just started, which
// sends each as many bytes as a proxy received. It returns the time of the last client and the
// processor time of the server.
func syncFloor(ctx context.Context, clients int, bytes int64) (last, cpu time.Duration, err error) {
	server, err := child.Start(floorCommand)
	if err != nil {
		return 0, 0, err
	}
	defer server.Stop()
	address, err := server.Line()
	if err != nil {
		return 0, 0, err
	}
	failed := make(chan error, clients)
	var running sync.WaitGroup
	before, start := usage.CPUOf(server.Pid()), time.Now()
	for range clients {
		running.Go(func() {
			if _, err := bare.Drain(ctx, address, bytes, proxy.Windows()...); err != nil {
				failed <- err
			}
		})
	}
	running.Wait()
	last, cpu = time.Since(start), usage.CPUOf(server.Pid())-before
	select {
	case err := <-failed:
		return 0, 0, err
	default:
		return last, cpu, nil
	}
}
