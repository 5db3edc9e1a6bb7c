package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// report is the measurement.
type report struct {
	options         *options
	lasted          time.Duration
	took, left      []time.Duration // sorted
	busiest         int             // renewals within one second
	failed, expired int64
	recorded        int
	discovery, mcp  time.Duration // of processor time
	memory          usage.Memory
	use             usage.Use
}

// measure lets the machines renew, and checks each second for expired certificates.
func (m *mesh) measure(ctx context.Context, f *fleet) (*report, error) {
	discovery, server := m.stack.Discovery.Pid(), m.stack.MCPServer.Pid()
	discoveryBefore, serverBefore, before, begun := usage.CPUOf(discovery), usage.CPUOf(server), usage.Now(), time.Now()
	for tenth := 1; tenth <= 10; tenth++ {
		for end := begun.Add(m.options.lasting * time.Duration(tenth) / 10); time.Now().Before(end); {
			if !wait.For(ctx, min(time.Second, time.Until(end))) {
				return nil, ctx.Err()
			}
			f.expired.Add(int64(f.outdated()))
		}
		f.mu.Lock()
		fmt.Fprintf(os.Stderr, "%d %%: %d renewals\n", 10*tenth, len(f.took))
		f.mu.Unlock()
	}
	r := &report{
		options: m.options, lasted: time.Since(begun), failed: f.failed.Load(), expired: f.expired.Load(), memory: usage.MemoryOf(discovery),
		discovery: usage.CPUOf(discovery) - discoveryBefore, mcp: usage.CPUOf(server) - serverBefore, use: usage.Now().Since(before),
	}
	f.mu.Lock()
	r.took, r.left, r.busiest = slices.Sorted(slices.Values(f.took)), slices.Sorted(slices.Values(f.left)), busiest(f.at)
	f.mu.Unlock()
	var err error
	r.recorded, err = m.recorded(ctx)
	return r, err
}

func busiest(at []time.Time) (most int) {
	seconds := map[int64]int{}
	for _, t := range at {
		seconds[t.Unix()]++
		most = max(most, seconds[t.Unix()])
	}
	return most
}

// print prints all measurements, and reports whether the aims were met: no certificate has expired,
// and none was refused.
func (r *report) print(out io.Writer) bool {
	rate := float64(len(r.took)) / r.lasted.Seconds()
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3) }
	fmt.Fprintf(out, "\n%d machines with certificates of %s, for %s, on %s\n\n", r.options.machines, r.options.lifetime, r.lasted.Round(time.Second), usage.Processors())
	fmt.Fprintf(out, "%-42s %d, %.1f a second, %d in the busiest\n", "renewals", len(r.took), rate, r.busiest)
	fmt.Fprintf(out, "%-42s %s median, %s p99, %s max\n", "one takes", ms(timing.Percentile(r.took, 50)), ms(timing.Percentile(r.took, 99)), ms(timing.Percentile(r.took, 100)))
	fmt.Fprintf(out, "%-42s %s at least, %s median\n", "what was left of the certificate before", timing.Percentile(r.left, 0).Round(100*time.Millisecond), timing.Percentile(r.left, 50).Round(100*time.Millisecond))
	fmt.Fprintf(out, "%-42s %d\n", "attempts that failed, and were repeated", r.failed)
	fmt.Fprintf(out, "%-42s %d  (aim: none)\n", "certificates that ended", r.expired)
	fmt.Fprintf(out, "%-42s %d\n", "rows of the record", r.recorded)
	fmt.Fprintf(out, "%-42s %s of a processor, %s a renewal; %.0f MB\n", "discovery", percent(r.discovery, r.lasted), ms(r.discovery/time.Duration(max(len(r.took), 1))), float64(r.memory.Now)/1e6)
	fmt.Fprintf(out, "%-42s %s of a processor\n", "mcp-server", percent(r.mcp, r.lasted))
	fmt.Fprintf(out, "\nMachine meanwhile: %s\n", r.use)
	return r.expired == 0 && len(r.took) > 0
}

func percent(part, of time.Duration) string {
	return fmt.Sprintf("%.0f %%", 100*part.Seconds()/of.Seconds())
}
