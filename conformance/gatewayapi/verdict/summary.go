package verdict

import (
	"fmt"
	"io"
	"text/tabwriter"

	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/yaml"
)

// Summarize prints how many tests of each profile a report says have passed, failed, or were skipped.
func Summarize(to io.Writer, report []byte) error {
	var r confv1.ConformanceReport
	if err := yaml.Unmarshal(report, &r); err != nil {
		return fmt.Errorf("read the report of the suite: %w", err)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROFILE\tTESTS\tPASSED\tFAILED\tSKIPPED")
	for _, p := range r.ProfileReports {
		row(table, p.Name, "core", p.Core.Statistics)
		if p.Extended != nil {
			row(table, p.Name, "extended", p.Extended.Statistics)
		}
	}
	return table.Flush()
}

func row(to io.Writer, profile, tests string, s confv1.Statistics) {
	fmt.Fprintf(to, "%s\t%s\t%d\t%d\t%d\n", profile, tests, s.Passed, s.Failed, s.Skipped)
}
