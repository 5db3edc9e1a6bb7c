// Package check looks at a machine before it joins the mesh: whether everything is there that the agent and its Envoy need, and what to do about
// what is not.
package check

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/pgmesh/pgmesh/internal/terminal"
)

// State is how a part of the machine is.
type State string

// A failure keeps the agent or Envoy from working; a warning may, or will some day.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failure State = "failure"
)

// Finding is what was found about one part.
type Finding struct {
	Part  string `json:"part"`
	State State  `json:"state"`
	Says  string `json:"says"`
	// Do is what to do about it.
	Do string `json:"do,omitempty"`
}

func ok(part, says string, args ...any) Finding {
	return Finding{Part: part, State: OK, Says: fmt.Sprintf(says, args...)}
}

func warn(part, does, says string, args ...any) Finding {
	return Finding{Part: part, State: Warning, Says: fmt.Sprintf(says, args...), Do: does}
}

func fail(part, does, says string, args ...any) Finding {
	return Finding{Part: part, State: Failure, Says: fmt.Sprintf(says, args...), Do: does}
}

// Check looks at one part, or several of a sort.
type Check func(context.Context) []Finding

// Run makes the checks, one after the other.
func Run(ctx context.Context, checks ...Check) (all []Finding) {
	for _, c := range checks {
		all = append(all, c(ctx)...)
	}
	return all
}

// Failed tells whether there is a failure.
func Failed(all []Finding) bool {
	for _, f := range all {
		if f.State == Failure {
			return true
		}
	}
	return false
}

// Write prints a line for each, and beneath what is not well what to do about it.
func Write(out io.Writer, all []Finding) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.State, f.Part, terminal.Line(f.Says))
		if f.Do != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", f.Do)
		}
	}
	return table.Flush()
}
