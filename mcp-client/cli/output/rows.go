package output

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// Rows are lines of cells. Flush aligns the columns, writes everything, and returns any error.
type Rows struct{ *tabwriter.Writer }

// NewRows returns rows that Flush writes to out.
func NewRows(out io.Writer) *Rows { return &Rows{tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)} }

// Row adds a row.
func (r *Rows) Row(cells ...string) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(r, "\t")
		}
		fmt.Fprint(r, terminal.Line(cell))
	}
	fmt.Fprintln(r)
}

// Pairs adds a row for each entry of a map, all under one title.
func (r *Rows) Pairs(title string, pairs map[string]string) {
	if len(pairs) == 0 {
		r.Row(title, "-")
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		r.Row(title, key+"="+strings.Join(strings.Fields(pairs[key]), " "))
		title = ""
	}
}
