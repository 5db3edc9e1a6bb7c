// Package report keeps what a conversion has to tell: what it could not say in the Gateway API, and
// what is otherwise worth knowing.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Place is where something stands in the source.
type Place struct {
	File                        string
	Document, Line              int // counted from 1; 0 if there is none
	Kind, Namespace, Name, Path string
}

// In is a place within this one.
func (p Place) In(path string, values ...any) Place {
	path = fmt.Sprintf(path, values...)
	switch {
	case p.Path == "":
		p.Path = path
	case strings.HasPrefix(path, "["):
		p.Path += path
	default:
		p.Path += "." + path
	}
	return p
}

// Report is what is told of one conversion.
type Report struct {
	// Lost has what the source says and the result does not, with what to do instead.
	Lost kinds.Errors
	// Notes have what needs somebody's attention, and is no loss.
	Notes kinds.Errors

	dropped int
}

// maxTold bounds what is told: more than this is usually one thing repeated.
const maxTold = 1000

// Lose tells of something that is lost, and what to do instead.
func (r *Report) Lose(at Place, what, instead string) {
	if len(r.Lost) == maxTold {
		r.dropped++
		return
	}
	r.Lost = withOne(r.Lost, at.told(what, instead))
}

// Note tells of something that is no loss.
func (r *Report) Note(at Place, what, hint string) {
	if len(r.Notes) < maxTold {
		r.Notes = withOne(r.Notes, at.told(what, hint))
	}
}

// withOne adds what is not told already.
func withOne(told kinds.Errors, one kinds.Violation) kinds.Errors {
	if slices.Contains(told, one) {
		return told
	}
	return append(told, one)
}

func (p Place) told(reason, hint string) kinds.Violation {
	return kinds.Violation{
		File: p.File, Document: p.Document, Line: p.Line, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, Path: p.Path, Reason: reason, Hint: hint,
	}
}

// Sort brings what is told into the order of the source. It is called once, at the end.
func (r *Report) Sort() {
	for _, told := range []kinds.Errors{r.Lost, r.Notes} {
		slices.SortStableFunc(told, func(a, b kinds.Violation) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Line, b.Line))
		})
	}
	if r.dropped > 0 {
		r.Lost = append(r.Lost, kinds.Violation{Reason: fmt.Sprintf("%d more losses are not shown", r.dropped)})
	}
}
