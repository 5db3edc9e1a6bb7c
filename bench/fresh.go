package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/bench/bare"
	"github.com/pgmesh/pgmesh/bench/child"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// The aims for a fresh client of a large mesh: the lesser of the two rates, and the memory of each
// side.
const (
	aimBytes     = 200 << 20 // a second
	aimResources = 300_000   // a second
	aimMemory    = 3         // times the size of the data
)

// received is what a fresh client measured.
type received struct {
	Took             time.Duration
	Bytes, Resources int64
	PeakRSS          int64
	CPU              time.Duration // on all processors
}

// benchFresh serves a large mesh to clients that have nothing: to one that only reads, so as to
// measure the server, and to the client library. They alternate with the same number of bytes over
// a bare stream.
func benchFresh(ctx context.Context, o options) error {
	s, err := startServer(ctx, mixedRows(o.resources))
	if err != nil {
		return err
	}
	defer s.stop()
	floor, err := child.Start("bare")
	if err != nil {
		return err
	}
	defer floor.Stop()
	address, err := floor.Line()
	if err != nil {
		return err
	}
	loaded := usage.MemoryOf(s.program.Pid())
	start := usage.Now()
	var light, library, bare []received
	var serving int64
	for range o.fresh {
		if err := usage.ForgetPeak(s.program.Pid()); err != nil {
			return err
		}
		for _, way := range []struct {
			into *[]received
			args []string
		}{
			{&light, []string{"light", s.address}}, {&library, []string{"library", s.address}}, {&bare, []string{"fill", address}},
		} {
			if way.into == &bare {
				way.args = append(way.args, strconv.FormatInt(light[0].Bytes, 10))
			}
			var r received
			if err := child.Answer(ctx, &r, way.args...); err != nil {
				return fmt.Errorf("%s: %w", way.args[0], err)
			}
			*way.into = append(*way.into, r)
		}
		serving = max(serving, usage.MemoryOf(s.program.Pid()).Peak)
	}
	reportFresh(light, library, bare, usage.Memory{Now: loaded.Now, Peak: loaded.Peak}, serving)
	meanwhile(start)
	return nil
}

func reportFresh(light, library, bare []received, loaded usage.Memory, serving int64) {
	data, resources := light[0].Bytes, light[0].Resources
	fmt.Fprintf(os.Stdout, "\n%d resources, %s, to a fresh client over loopback, %d times each in turns\n\n", resources, megabytes(data), len(light))
	fmt.Fprintf(os.Stdout, "%-36s %9s %9s %12s %16s %14s\n", "", "median", "slowest", "MB/s", "resources/s", "client's CPU")
	for _, l := range []struct {
		name string
		all  []received
	}{{"server, to a client that only reads", light}, {"server and client library", library}, {"floor: as many bytes, bare gRPC", bare}} {
		slices.SortFunc(l.all, func(a, b received) int { return int(a.Took - b.Took) })
		median := l.all[len(l.all)/2]
		perSecond := float64(resources) / median.Took.Seconds()
		text := fmt.Sprintf("%16.0f", perSecond)
		if l.name[0] == 'f' {
			text = ""
		}
		fmt.Fprintf(os.Stdout, "%-36s %9s %9s %12.0f %16s %14s\n", l.name, millis(median.Took), millis(l.all[len(l.all)-1].Took), rate(median), text, millis(median.CPU))
	}
	aim := min(aimBytes/float64(data)*float64(resources), aimResources)
	fmt.Fprintf(os.Stdout, "\naim: %.0f resources/s, which is the lower of %d MB/s and %d resources/s here: server %s, with the client library %s\n",
		aim, aimBytes>>20, aimResources, met(resourcesPerSecond(light) >= aim), met(resourcesPerSecond(library) >= aim))
	client := slices.MaxFunc(library, func(a, b received) int { return int(a.PeakRSS - b.PeakRSS) }).PeakRSS
	fmt.Fprintf(os.Stdout, "memory at most: server while serving %s, %.1f times the data (%s at the load); client %s, %.1f times (aim: under %d, %s and %s)\n",
		megabytes(serving), ratio(serving, data), megabytes(loaded.Peak), megabytes(client), ratio(client, data), aimMemory,
		met(serving < aimMemory*data), met(client < aimMemory*data))
}

func rate(r received) float64 { return float64(r.Bytes) / (1 << 20) / r.Took.Seconds() }

// resourcesPerSecond returns the median rate in resources.
func resourcesPerSecond(sorted []received) float64 {
	m := sorted[len(sorted)/2]
	return float64(m.Resources) / m.Took.Seconds()
}

func ratio(a, b int64) float64 { return float64(a) / float64(b) }

func megabytes(b int64) string { return fmt.Sprintf("%.1f MB", float64(b)/(1<<20)) }

// served is a running mcp-server with its own database.
type served struct {
	program  *stack.Program
	address  string
	database string
	stop     func()
}

func startServer(ctx context.Context, rows []meshRow) (*served, error) {
	fmt.Fprintf(os.Stderr, "building mcp-server and loading %d resources …\n", len(rows))
	dir, remove, err := built(ctx, "mcp-server")
	if err != nil {
		return nil, err
	}
	postgres, err := startDatabase(ctx, nil)
	if err != nil {
		remove()
		return nil, err
	}
	s := &served{database: postgres.URL(), stop: func() { postgres.Stop(); remove() }}
	if _, err := load(ctx, postgres.URL(), insertRows(ctx, rows)); err != nil {
		s.stop()
		return nil, err
	}
	mesh, err := stack.New(dir, dir, postgres.URL())
	if err != nil {
		s.stop()
		return nil, err
	}
	s.program, s.address = mesh.MCPServer, mesh.MCP
	s.stop = func() { mesh.MCPServer.Stop(); postgres.Stop(); remove() }
	if err := mesh.MCPServer.Start(); err != nil {
		s.stop()
		return nil, err
	}
	if err := mesh.MCPServer.Ready(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// clientCommands are commands that run in other processes.
func clientCommands() []*cobra.Command {
	hidden := func(use string, args int, run func(ctx context.Context, args []string) error) *cobra.Command {
		return &cobra.Command{Use: use, Hidden: true, Args: cobra.ExactArgs(args), RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), args)
		}}
	}
	telling := func(receive func(ctx context.Context, args []string, into *received) error) func(context.Context, []string) error {
		return func(ctx context.Context, args []string) error {
			var r received
			start, began := time.Now(), usage.OwnCPU()
			if err := receive(ctx, args, &r); err != nil {
				return err
			}
			r.Took, r.PeakRSS, r.CPU = time.Since(start), usage.MemoryOf(os.Getpid()).Peak, usage.OwnCPU()-began
			return json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	return []*cobra.Command{
		hidden("light", 1, telling(receiveLight)),
		hidden("library", 1, telling(receiveLibrary)),
		hidden("bare", 0, func(ctx context.Context, _ []string) error { return bare.Serve(ctx, os.Stdin, os.Stdout) }),
		hidden("fill", 2, telling(receiveBare)),
		hidden("crowd", 2, func(ctx context.Context, args []string) error { return runCrowdOf(ctx, args, joinLight(args[0])) }),
		hidden("bare-crowd", 2, func(ctx context.Context, args []string) error { return runCrowdOf(ctx, args, joinBare(args[0])) }),
	}
}

func runCrowdOf(ctx context.Context, args []string, join func(context.Context, int) (member, error)) error {
	clients, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	if err := runCrowd(ctx, join, clients); ctx.Err() == nil {
		return err
	}
	return nil
}

func receiveLight(ctx context.Context, args []string, r *received) error {
	c, err := newLight(ctx, args[0], "bench-light")
	if err != nil {
		return err
	}
	defer c.conn.Close()
	_, err = c.batch()
	r.Bytes, r.Resources = c.bytes, c.resources
	return err
}

func receiveBare(ctx context.Context, args []string, r *received) error {
	bytes, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	r.Bytes, err = bare.Drain(ctx, args[0], bytes)
	return err
}

var errEnough = errors.New("that was all")

// receiveLibrary receives the first batch, which is the whole state, like discovery does.
func receiveLibrary(ctx context.Context, args []string, r *received) error {
	counted := &counter{}
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), withCounter(counted)}
	client := mcp.New(mcp.Config{Targets: []string{args[0]}, Name: "bench", DialOptions: options, Once: true})
	err := client.Run(ctx, func(b kinds.Batch) error {
		r.Resources = int64(len(b.Changes))
		return errEnough
	})
	r.Bytes = counted.bytes.Load()
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
