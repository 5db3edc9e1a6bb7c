package kinds

import (
	"fmt"
	"strings"
)

// Violation is one thing that is wrong with one document, told so that its author can find and fix
// it. Fields that are not known are zero: a violation found by the database has neither File nor
// Line.
type Violation struct {
	File      string `json:"file,omitempty"`
	Document  int    `json:"document,omitempty"` // counted from 1
	Line      int    `json:"line,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Path      string `json:"path,omitempty"` // "spec.http[0].route[0].weight", "" for the document as a whole
	Reason    string `json:"reason"`
	Hint      string `json:"hint,omitempty"`
}

// Error renders the violation on one line:
//
//	reviews.yaml: document 2, line 14: VirtualService default/reviews: spec.http[0].rout: unknown field "rout" (did you mean "route"?)
func (v Violation) Error() string {
	var parts []string
	for _, part := range []string{v.File, v.place(), v.resource(), v.Path, v.Reason} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	text := strings.Join(parts, ": ")
	if v.Hint != "" {
		text += " (" + v.Hint + ")"
	}
	return text
}

func (v Violation) place() string {
	switch {
	case v.Document > 0 && v.Line > 0:
		return fmt.Sprintf("document %d, line %d", v.Document, v.Line)
	case v.Document > 0:
		return fmt.Sprintf("document %d", v.Document)
	case v.Line > 0:
		return fmt.Sprintf("line %d", v.Line)
	}
	return ""
}

func (v Violation) resource() string {
	name := v.Name
	if v.Namespace != "" && name != "" {
		name = v.Namespace + "/" + name
	}
	return strings.TrimSpace(v.Kind + " " + name)
}

// Errors are all violations found, in the order of the documents. As an error it is never empty.
type Errors []Violation

// Error renders one violation per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, v := range e {
		lines[i] = v.Error()
	}
	return strings.Join(lines, "\n")
}
