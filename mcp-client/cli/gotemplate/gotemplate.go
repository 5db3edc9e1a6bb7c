// Package gotemplate runs templates of Go on JSON, for -o go-template. The standard library's parser
// reads them. Its executor would nearly double the program, because it calls methods by their names,
// so that the linker can leave out none; values of JSON have no methods.
package gotemplate

import (
	"bytes"
	"errors"
	"fmt"
	"text/template/parse"
)

// maxSteps is how many parts of templates are run at most, and maxDepth how deep templates call each
// other: a template may call itself.
const (
	maxSteps = 10_000_000
	maxDepth = 1000
)

// Template is a template that was read.
type Template struct {
	main *parse.Tree
	all  map[string]*parse.Tree
}

const name = "template"

// Parse reads a template.
func Parse(text string) (*Template, error) {
	known := map[string]any{"and": true, "or": true}
	for f := range functions {
		known[f] = true
	}
	all, err := parse.Parse(name, text, "", "", known)
	if err != nil {
		return nil, err
	}
	return &Template{all[name], all}, nil
}

// Execute returns what the template makes of JSON: nil, bool, string, int64, float64, []any and
// map[string]any. What is missing is "<no value>", as kubectl has it.
func (t *Template) Execute(data any) ([]byte, error) {
	if t.main == nil { // nothing but definitions
		return nil, nil
	}
	r := run{template: t, variables: []variable{{"$", data}}}
	err := r.walk(data, t.main.Root)
	return r.out.Bytes(), err
}

// variable is one of the template, with its $.
type variable struct {
	name  string
	value any
}

// run is a run of a template.
type run struct {
	template     *Template
	out          bytes.Buffer
	variables    []variable
	steps, depth int
}

// errBreak and errContinue end an iteration.
var (
	errBreak    = errors.New("{{break}} is not in a range")
	errContinue = errors.New("{{continue}} is not in a range")
)

func (r *run) step() error {
	if r.steps++; r.steps > maxSteps {
		return errors.New("the template does not end: it has run ten million steps")
	}
	return nil
}

func (r *run) walk(dot any, node parse.Node) error {
	if err := r.step(); err != nil {
		return err
	}
	switch n := node.(type) {
	case *parse.TextNode:
		r.out.Write(n.Text)
		return nil
	case *parse.ActionNode:
		value, err := r.pipe(dot, n.Pipe)
		if err == nil && len(n.Pipe.Decl) == 0 {
			r.out.WriteString(text(value))
		}
		return err
	case *parse.ListNode:
		return r.list(dot, n)
	case *parse.IfNode:
		return r.branch(dot, &n.BranchNode, false)
	case *parse.WithNode:
		return r.branch(dot, &n.BranchNode, true)
	case *parse.RangeNode:
		return r.ranged(dot, n)
	case *parse.TemplateNode:
		return r.call(dot, n)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	}
	return nil // a comment
}

// list runs one part after the other. Its variables end with it.
func (r *run) list(dot any, n *parse.ListNode) error {
	if n == nil { // an else that is not there
		return nil
	}
	defer r.forget(len(r.variables))
	for _, part := range n.Nodes {
		if err := r.walk(dot, part); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) forget(after int) { r.variables = r.variables[:after] }

// branch runs an if or a with.
func (r *run) branch(dot any, n *parse.BranchNode, with bool) error {
	defer r.forget(len(r.variables))
	value, err := r.pipe(dot, n.Pipe)
	switch {
	case err != nil:
		return err
	case !truth(value):
		return r.list(dot, n.ElseList)
	case with:
		return r.list(value, n.List)
	}
	return r.list(dot, n.List)
}

// call runs another template, which knows none of the variables.
func (r *run) call(dot any, n *parse.TemplateNode) error {
	called := r.template.all[n.Name]
	if called == nil {
		return fmt.Errorf("%s: there is no template %q", n, n.Name)
	}
	if r.depth++; r.depth > maxDepth {
		return fmt.Errorf("%s: templates call each other more than %d deep", n, maxDepth)
	}
	value, err := any(nil), error(nil)
	if n.Pipe != nil {
		value, err = r.pipe(dot, n.Pipe)
	}
	if err != nil {
		return err
	}
	before := r.variables
	r.variables = []variable{{"$", value}}
	err = r.walk(value, called.Root)
	r.variables, r.depth = before, r.depth-1
	return err
}
