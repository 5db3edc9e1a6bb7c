package output

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// gap is how many spaces are between columns.
const gap = 3

// Rows are lines of cells. Flush aligns the columns, writes everything, and returns any error.
type Rows struct {
	out  io.Writer
	rows [][]string
	// kept are the widths of a table that goes on: those that its columns have had so far. Nil is of one that does not.
	kept *[]int
}

// NewRows returns rows that Flush writes to out.
func NewRows(out io.Writer) *Rows { return &Rows{out: out} }

// Row adds a row.
func (r *Rows) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = terminal.Line(cell)
	}
	r.rows = append(r.rows, row)
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

// Flush writes the rows. A column goes on from row to row; one that has not so many cells ends it. The last cell of a row is in
// no column, for nothing follows it.
func (r *Rows) Flush() error {
	var b strings.Builder
	widths := make([][]int, len(r.rows))
	for i, row := range r.rows {
		for column := range max(0, len(row)-1) {
			if i == 0 || len(widths[i-1]) <= column {
				widths[i] = append(widths[i], r.width(i, column))
			} else {
				widths[i] = append(widths[i], widths[i-1][column])
			}
			b.WriteString(row[column] + strings.Repeat(" ", widths[i][column]-terminal.Width(row[column])+gap))
		}
		b.WriteString(strings.Join(row[max(0, len(row)-1):], "") + "\n")
	}
	r.rows = nil
	_, err := io.WriteString(r.out, b.String())
	return err
}

// width is the one of a column that begins at a row.
func (r *Rows) width(from, column int) (width int) {
	for _, row := range r.rows[from:] {
		if len(row) <= column+1 {
			break
		}
		width = max(width, terminal.Width(row[column]))
	}
	if r.kept == nil {
		return width
	}
	if len(*r.kept) == column {
		*r.kept = append(*r.kept, width)
	}
	width = max(width, (*r.kept)[column])
	(*r.kept)[column] = width
	return width
}
