package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// run is one measurement of one server.
type run struct {
	*options

	server *server
	crowd  *crowd
	floor  *floor
	result *result
}

// measure runs the chosen scenarios, one after the other.
func measure(ctx context.Context, o *options) (*result, error) {
	r := &run{options: o, result: &result{At: time.Now().UTC(), Commit: sources(), Processors: usage.Processors(), Parameters: o}}
	start := usage.Now()
	if o.needsProxies() {
		if err := r.withProxies(ctx); err != nil {
			return nil, err
		}
	}
	if o.measures("envoy") {
		if err := r.withEnvoy(ctx); err != nil {
			return nil, fmt.Errorf("measuring a real Envoy: %w", err)
		}
	}
	r.result.Machine = usage.Now().Since(start)
	return r.result, nil
}

// withProxies runs the scenarios with simulated proxies.
func (r *run) withProxies(ctx context.Context) (err error) {
	if r.server, err = openServer(ctx, r.options); err != nil {
		return err
	}
	defer r.server.stop()
	defer r.server.writer.close()
	if r.ADS == "" || r.load {
		all := r.World.Resources()
		sayf("writing %d resources …", len(all))
		if _, err := r.server.writer.write(ctx, change{scenario: "load", resources: all}); err != nil {
			return fmt.Errorf("write the mesh: %w", err)
		}
	}
	if err := r.arrived(ctx); err != nil {
		return fmt.Errorf("wait until the mesh has arrived: %w", err)
	}
	for _, part := range []struct {
		name    string
		needed  bool
		measure func(context.Context) error
	}{
		{"first-sync", r.needsCrowd(), r.firstSync},
		{"route", r.measures("route"), r.changes("route", changeOfRoute)},
		{"endpoint", r.measures("endpoint"), r.changes("endpoint", changeOfEndpoint)},
		{"service", r.measures("service"), r.changes("service", newService)},
		{"bulk", r.measures("bulk"), r.bulk},
		{"memory", r.measures("memory"), r.memory},
	} {
		if !part.needed {
			continue
		}
		sayf("%s …", part.name)
		if err := part.measure(ctx); err != nil {
			r.leave()
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
	}
	r.leave()
	return nil
}

// arrived waits until the server has the whole mesh: until one proxy has received all of it.
func (r *run) arrived(ctx context.Context) error {
	first, _, err := join(ctx, r.who(), r.server.address, r.Protocol == "delta", 0, 1)
	if err == nil {
		first.leave()
	}
	return err
}

// needsCrowd reports whether any scenario needs connected proxies.
func (r *run) needsCrowd() bool {
	return slices.ContainsFunc([]string{"first-sync", "route", "endpoint", "service", "bulk"}, r.measures)
}

// leave disconnects all proxies.
func (r *run) leave() {
	if r.crowd != nil {
		r.crowd.leave()
	}
	if r.floor != nil {
		r.floor.stop()
	}
	r.crowd, r.floor = nil, nil
}

// sayf prints progress.
func sayf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
