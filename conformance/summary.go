package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
)

// outcome is what came of one case.
type outcome struct {
	ID    string   `json:"id"`
	Tier  string   `json:"tier"`
	Pass  int      `json:"pass"`
	Fail  []string `json:"fail"`
	Error string   `json:"error"`
	Diff  []string `json:"diffVsGolden"`
}

// tally counts the cases of a tier.
type tally struct{ cases, passed, failed, broken, same int }

// summarize prints a line for each tier, and each difference if that is wanted.
func summarize(report string, diff bool) error {
	text, err := os.ReadFile(report)
	if err != nil {
		return fmt.Errorf("the runner left no report: %w", err)
	}
	var outcomes []outcome
	if err := json.Unmarshal(text, &outcomes); err != nil {
		return fmt.Errorf("read %s: %w", report, err)
	}
	tiers := map[string]*tally{}
	for _, o := range outcomes {
		if tiers[o.Tier] == nil {
			tiers[o.Tier] = &tally{}
		}
		tiers[o.Tier].add(o)
		if diff && len(o.Diff) > 0 {
			fmt.Fprintln(os.Stdout, o.ID)
			for _, d := range o.Diff {
				fmt.Fprintln(os.Stdout, "   ", d)
			}
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprint(out, "tier\tcases\tpassed\tfailed\tnot run")
	if diff {
		fmt.Fprint(out, "\tlike the recording")
	}
	fmt.Fprintln(out)
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		t := tiers[name]
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d", name, t.cases, t.passed, t.failed, t.broken)
		if diff {
			fmt.Fprintf(out, "\t%d", t.same)
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

func (t *tally) add(o outcome) {
	t.cases++
	switch {
	case o.Error != "":
		t.broken++
	case len(o.Fail) > 0:
		t.failed++
	default:
		t.passed++
	}
	if o.Error == "" && len(o.Diff) == 0 {
		t.same++
	}
}
