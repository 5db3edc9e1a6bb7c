package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/pgmesh/pgmesh/conformance/explain"
)

// tally counts the cases of a tier.
type tally struct{ cases, passed, explained, failed, same int }

// summarize prints what nothing explains, and a line for each tier.
func summarize(to io.Writer, outcomes []*outcome, diff bool) error {
	tiers := map[string]*tally{}
	for _, one := range outcomes {
		if tiers[one.Tier] == nil {
			tiers[one.Tier] = &tally{}
		}
		tiers[one.Tier].add(one)
		if len(one.unexplained) > 0 {
			fmt.Fprintln(to, one.ID)
		}
		for _, d := range one.unexplained {
			fmt.Fprintln(to, "   ", d)
		}
	}
	out := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	fmt.Fprint(out, "tier\tcases\tpassed\texplained\tfailed")
	if diff {
		fmt.Fprint(out, "\tlike the recording")
	}
	fmt.Fprintln(out)
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		t := tiers[name]
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d", name, t.cases, t.passed, t.explained, t.failed)
		if diff {
			fmt.Fprintf(out, "\t%d", t.same)
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// listReasons prints how often each explanation was needed.
func listReasons(to io.Writer, explanations explain.Explanations) {
	fmt.Fprintln(to, "\nDifferences from istiod that are explained:")
	for _, e := range explanations {
		if e.Uses() > 0 {
			fmt.Fprintf(to, "%6d  %s\n", e.Uses(), e.Why)
		}
	}
}

// add counts a case as passed if it is met, and, where recordings are compared, if nothing had to
// be explained.
func (t *tally) add(one *outcome) {
	t.cases++
	switch {
	case len(one.unexplained) > 0:
		t.failed++
	case len(one.failures()) > 0:
		t.explained++
	default:
		t.passed++
	}
	if one.same {
		t.same++
	}
}
