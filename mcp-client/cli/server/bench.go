package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// benchOptions are the options of a benchmark.
type benchOptions struct {
	arguments.Scope

	clients, changes int
}

// Bench returns the command bench.
func Bench(s *session.Session) *cobra.Command {
	p := program{s}
	b := benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast a server serves many clients",
		Long: `Measure how fast a server serves many clients: connect them all at once, and tell how long each took to have the whole state, and how
many bytes that was.

With --changes, also how long a change takes to reach them: for each, a ServiceEntry named ` + benchName + ` is applied in the namespace
of -n, as a revision of its own, and removed at the end. That is for pgmesh's servers, and for those that may be written to.

The clients run in this one program, and take their share of its machine: measure from another than the server's if the numbers are
to be the server's own. A server that lets in only so many a second is waited for as it says; then the times tell of its limits: raise its
--max-call-rate and --max-call-burst, or those for readers, for the time of the measurement. With -o json the times are seconds.`,
		Example: `  mcp-client bench --clients 10
  mcp-client bench --clients 20 --kind vs --changes 5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.clients < 1 || b.changes < 0 {
				return failure.Usage(cmd, errors.New("there must be at least 1 client, and not less than 0 changes"))
			}
			return p.bench(cmd.Context(), b)
		},
	}
	b.DeclareFlags(cmd)
	cmd.Flags().IntVar(&b.clients, "clients", 100, "how many clients to connect")
	cmd.Flags().IntVar(&b.changes, "changes", 0, "how many changes to measure, for which something is written to the mesh")
	return cmd
}

func (p program) bench(ctx context.Context, b benchOptions) error {
	ks, err := b.Kinds()
	if err != nil {
		return err
	}
	if b.changes > 0 {
		ks = arguments.Distinct(append(ks, benchKind))
	}
	f := newFleet(p, ks, b.clients)
	notice := p.Notice(fmt.Sprintf("connecting %d clients to %s", b.clients, p.Server.Address))
	err = f.connect(ctx, notice.Count)
	notice.End()
	defer f.end()
	if err != nil {
		return err
	}
	measured := f.measured()
	if b.changes > 0 {
		notice := p.Notice(fmt.Sprintf("making %d changes", b.changes))
		measured.Changes, err = f.change(ctx, b.changes)
		notice.End()
		if err != nil {
			return err
		}
	}
	return p.printMeasured(measured)
}

// measured is the printed form of a benchmark's result.
type measured struct {
	Clients   int         `json:"clients"`
	Resources int         `json:"resources"` // per client
	Bytes     int64       `json:"bytes"`     // per client, on the wire
	State     percentiles `json:"state"`
	Seconds   float64     `json:"seconds"` // until all clients had it
	Changes   *changed    `json:"changes,omitempty"`
}

type changed struct {
	Count  int         `json:"count"`
	Commit percentiles `json:"commit"`
	Each   percentiles `json:"each"`
	All    percentiles `json:"all"`
}

func (p program) printMeasured(m measured) error {
	if p.Output.IsTree() {
		return p.PrintTree(m)
	}
	w := output.NewRows(p.Out)
	w.Row("clients", fmt.Sprint(m.Clients))
	w.Row("state of each", fmt.Sprintf("%s, %s", words.Counted(m.Resources, "resource", "resources"), bytesText(float64(m.Bytes))))
	all := float64(m.Clients)
	w.Row("rate of all", fmt.Sprintf("%.0f resources/s, %s/s", all*float64(m.Resources)/m.Seconds, bytesText(all*float64(m.Bytes)/m.Seconds)))
	if m.Changes != nil {
		w.Row("changes", fmt.Sprint(m.Changes.Count))
	}
	w.Row("", "P50", "P90", "P99", "MAX")
	w.Row(m.State.row("whole state")...)
	if c := m.Changes; c != nil {
		w.Row(c.Commit.row("commit")...)
		w.Row(c.Each.row("change at a client")...)
		w.Row(c.All.row("change at all clients")...)
	}
	return w.Flush()
}

func bytesText(n float64) string {
	for _, unit := range []string{"B", "kB", "MB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g GB", n)
}

// percentiles of times, in seconds.
type percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// percentilesOf returns percentiles of sorted times.
func percentilesOf(sorted []time.Duration) percentiles {
	at := func(share float64) float64 { return sorted[int(share*float64(len(sorted)-1))].Seconds() }
	return percentiles{at(0.5), at(0.9), at(0.99), at(1)}
}

func (p percentiles) row(title string) []string {
	row := []string{title}
	for _, seconds := range []float64{p.P50, p.P90, p.P99, p.Max} {
		row = append(row, fmt.Sprintf("%.1f ms", 1000*seconds))
	}
	return row
}

var benchKind = func() *kinds.Kind {
	k, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	return k
}()
