// Package check examines a machine before it joins the mesh: whether the agent and Envoy have what
// they need, and what to do if not.
package check

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// State is the result for a part of the machine.
type State string

// A Failure keeps the agent or Envoy from working; a Warning may do so, or will some day.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failure State = "failure"
)

// Finding is a result for one part.
type Finding struct {
	Part  string `json:"part"`
	State State  `json:"state"`
	Says  string `json:"says"`
	// Do says what to do about it.
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

// Check examines one part, or several of a kind.
type Check func(context.Context) []Finding

// Run runs checks one after the other.
func Run(ctx context.Context, checks ...Check) (all []Finding) {
	for _, c := range checks {
		all = append(all, c(ctx)...)
	}
	return all
}

// Failed reports whether there is a Failure.
func Failed(all []Finding) bool {
	for _, f := range all {
		if f.State == Failure {
			return true
		}
	}
	return false
}

// Write prints a line for each finding, and below it what to do.
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
