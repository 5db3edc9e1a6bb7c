package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// report prints the results for people.
func (r *result) report(out io.Writer) {
	fmt.Fprintf(out, "\nCommit %s, %s\n", r.Commit, r.Processors)
	if o := r.Parameters; o.needsProxies() {
		fmt.Fprintf(out, "%d services of %d endpoints, %d proxies (%s)", o.World.Services, o.World.Endpoints, o.Proxies, o.Protocol)
		if o.World.Scope > 0 {
			fmt.Fprintf(out, " that see %d services each", o.World.Scope)
		}
		fmt.Fprintln(out)
	}
	r.reportFirstSync(out)
	r.reportChanges(out)
	r.reportBulk(out)
	if w := r.Memory; w != nil {
		fmt.Fprintf(out, "\nMemory of the server: %.0f MB alone, %.0f MB with %d idle proxies, %.0f MB with %d: %.0f kB a proxy; at most %.0f MB\n",
			w.Alone, w.WithFew, w.Few, w.With, w.Many, w.Each, w.Peak)
	}
	if e := r.Envoy; e != nil {
		fmt.Fprintf(out, "\n%d routes added one by one, from before COMMIT to the first answer of a real Envoy (%s): mean %.1f ms, p50 %.1f, p99 %.1f, max %.1f; "+
			"mean of the first %d %.1f, of the last %d %.1f (%.2f times)\n",
			e.Routes, e.Role, e.All.Mean, e.All.P50, e.All.P99, e.All.Max, e.Part, e.First.Mean, e.Part, e.Last.Mean, e.Last.Mean/e.First.Mean)
		fmt.Fprintf(out, "COMMIT alone: p50 %.1f ms; processor time a route: discovery %.1f ms, Envoy's main thread %.1f ms in the first tenth and %.1f ms in the last\n",
			e.Write.P50, e.CPU*1000, e.Envoy[0]*1000, e.Envoy[len(e.Envoy)-1]*1000)
	}
	fmt.Fprintf(out, "\nMachine meanwhile: %s\n", r.Machine)
}

func (r *result) reportFirstSync(out io.Writer) {
	if r.FirstSync == nil {
		return
	}
	t := newTable(out, "All proxies connect together to a server that has just started", "\tlast proxy\tmedian proxy\tmessages\tsent\tserver CPU\tproxies' CPU\tbefore\tat most\tfloor, last\tfloor's CPU\t")
	for i, s := range r.FirstSync.Times {
		fmt.Fprintf(t, "%d\t%.0f ms\t%.0f ms\t%d\t%.1f MB\t%.2f s\t%.2f s\t%.0f MB\t%.0f MB\t%.0f ms\t%.2f s\t\n",
			i+1, s.Last, s.Median, s.Messages, s.MB, s.CPU, s.Load, s.Before, s.Peak, s.Floor, s.FloorCPU)
	}
	t.Flush()
	first := r.FirstSync.Times[0].ByType
	for _, kind := range slices.Sorted(maps.Keys(first)) {
		fmt.Fprintf(out, "%s: %d messages, %s; ", kind, first[kind].Messages, sent(first[kind].MB))
	}
	fmt.Fprintln(out, "the first time")
}

func (r *result) reportChanges(out io.Writer) {
	if len(r.Changes) == 0 {
		return
	}
	t := newTable(out, "From before a change counts to the proxies that have it, in ms, and what a change takes at all proxies together",
		"\t\tp50\tp95\tp99\tmax\tmessages\tsent\tserver CPU\tits peak\tproxies' CPU\t")
	for _, c := range r.Changes {
		fmt.Fprintf(t, "%s\tlast proxy\t%s\t%.0f\t%s\t%.0f ms\t%.0f MB\t%.0f ms\t\n", c.Scenario, c.Last, c.Messages, sent(c.MB), c.CPU*1000, c.Peak, c.Load*1000)
		fmt.Fprintf(t, "\tmedian proxy\t%s\t\t\t\t\t\t\n", c.Median)
		fmt.Fprintf(t, "\twriting it\t%s\t\t\t\t\t\t\n", c.Write)
		if r.Parameters.Floor {
			fmt.Fprintf(t, "\tfloor, last\t%s\t\t\t\t\t\t\n", c.Floor)
		}
	}
	t.Flush()
	r.reportAim(out)
}

// maxServiceRatio is how many times as long as a change of a route a new service with its route may
// take.
const maxServiceRatio = 2.5

// reportAim compares a new service with a change of a route.
func (r *result) reportAim(out io.Writer) {
	ratio, ok := r.serviceToRoute()
	if !ok {
		return
	}
	verdict := "met"
	if ratio > maxServiceRatio {
		verdict = "missed"
	}
	fmt.Fprintf(out, "A new service takes %.1f times as long as a route at the last proxy, half of the times; the aim, %.1f times at most, is %s\n", ratio, maxServiceRatio, verdict)
}

// serviceToRoute returns that ratio, if both were measured.
func (r *result) serviceToRoute() (float64, bool) {
	p50 := map[string]float64{}
	for _, c := range r.Changes {
		p50[c.Scenario] = c.Last.P50
	}
	return p50["service"] / p50["route"], p50["service"] > 0 && p50["route"] > 0
}

// sent formats an amount of bytes.
func sent(mb float64) string {
	if mb < 1 {
		return fmt.Sprintf("%.0f kB", mb*1024)
	}
	return fmt.Sprintf("%.1f MB", mb)
}

func (s spread) String() string {
	return fmt.Sprintf("%.1f\t%.1f\t%.1f\t%.1f", s.P50, s.P95, s.P99, s.Max)
}

func (r *result) reportBulk(out io.Writer) {
	if len(r.Bulk) == 0 {
		return
	}
	t := newTable(out, "Many rows in one transaction", "rows\tlast proxy\tmedian proxy\tCOMMIT\tmessages\ta proxy and type\tsent\tserver CPU\tits peak\t")
	for _, b := range r.Bulk {
		fmt.Fprintf(t, "%d\t%.0f ms\t%.0f ms\t%.0f ms\t%d\t%d\t%.1f MB\t%.2f s\t%.0f MB\t\n",
			b.Rows, b.Last, b.Median, b.Write, b.Messages, b.Pushes, b.MB, b.CPU, b.Peak)
	}
	t.Flush()
}

func newTable(out io.Writer, title, head string) *tabwriter.Writer {
	fmt.Fprintf(out, "\n%s\n\n", title)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, head)
	return t
}
