package envoyview

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// StatsPath returns the admin API's path for statistics that match a name, as text, json or
// prometheus. With all it includes those never updated.
func StatsPath(name, format string, all bool) string {
	query := url.Values{}
	if name != "" {
		query.Set("filter", name)
	}
	if !all {
		query.Set("usedonly", "")
	}
	path := "/stats"
	switch format {
	case "json":
		query.Set("format", "json")
	case "prometheus":
		path = "/stats/prometheus"
	}
	return path + "?" + query.Encode()
}

// WriteStats prints statistics in text form as a table.
func WriteStats(out io.Writer, answer io.Reader) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "STATISTIC\tVALUE")
	lines := bufio.NewScanner(answer)
	lines.Buffer(nil, 1<<20)
	found := false
	for lines.Scan() {
		name, value, isOne := strings.Cut(lines.Text(), ": ")
		if isOne {
			found = true
			fmt.Fprintf(w, "%s\t%s\n", terminal.Line(name), terminal.Line(value))
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !found {
		_, err := fmt.Fprintln(out, "Envoy has none of that name that was touched; --all has the others")
		return err
	}
	return w.Flush()
}
