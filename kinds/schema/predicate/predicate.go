// Package predicate evaluates predicates of SQL/JSON paths on JSON trees, as Postgres does.
//
// A predicate is compiled once, with its regular expressions and without a search for its variables:
// each rule of a kind is asked of each item of each resource, some million times where a large registry
// is read. What no rule needs is not compiled, but refused: strict mode, methods other than size() and
// keyvalue(), arithmetic other than + and -.
package predicate

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	sqljson "github.com/theory/sqljson/path"
	"github.com/theory/sqljson/path/ast"
)

// Predicate is a compiled predicate. It may be used by many at a time.
type Predicate struct{ holds condition }

// Parse compiles a predicate that may use variables of these names.
func Parse(text string, variables ...string) (*Predicate, error) {
	parsed, err := Read(text)
	switch {
	case err != nil:
		return nil, err
	case !parsed.IsPredicate():
		return nil, fmt.Errorf("%s is no predicate", text)
	case parsed.IsStrict():
		return nil, errors.New("strict mode is not supported: leave out the word strict")
	}
	c := &compiler{variables: variables}
	holds := c.condition(parsed.Root())
	if c.err != nil {
		return nil, c.err
	}
	return &Predicate{holds}, nil
}

// Read reads a path, of which it need not be known whether it can be compiled.
func Read(text string) (p *sqljson.Path, err error) {
	defer func() {
		if reason := recover(); reason != nil { // the library's word for a number beyond its range
			p, err = nil, fmt.Errorf("read a path of SQL/JSON: %v", reason)
		}
	}()
	return sqljson.Parse(text)
}

// compiler makes functions of the nodes of a path. What it refuses is its error.
type compiler struct {
	variables []string
	err       error
}

func (c *compiler) refuse(n ast.Node) {
	if c.err == nil {
		c.err = fmt.Errorf("%s is not supported in a predicate: say it otherwise, or have package predicate compile it", n)
	}
}

// variable is the position of the value of a variable.
func (c *compiler) variable(n *ast.VariableNode) int {
	i := slices.Index(c.variables, n.Text())
	if i < 0 && c.err == nil {
		c.err = fmt.Errorf("there is no variable %s here: there are %q", n, c.variables)
	}
	return i
}

// Holds reports whether the predicate is true of a tree, whose numbers are json.Number, int64 or float64.
// The values are those of the variables, in the order in which Parse was given their names. What cannot
// be said, as whether a string is less than a number, does not hold.
func (p *Predicate) Holds(tree any, values ...any) bool {
	e := evaluations.Get().(*evaluation)
	e.root, e.current, e.values = tree, tree, append(e.values, values...)
	said := p.holds(e)
	e.forget()
	evaluations.Put(e)
	return said == yes
}

// evaluation is what a predicate is evaluated on.
type evaluation struct {
	root, current any
	values        []any
	found         []any // what the paths lead to that are being compared, one after the other
}

var evaluations = sync.Pool{New: func() any { return &evaluation{} }}

// mostKept is for how many items an evaluation keeps room.
const mostKept = 64

// forget lets go of what was evaluated.
func (e *evaluation) forget() {
	e.root, e.current = nil, nil
	clear(e.values)
	e.values = e.values[:0]
	if e.found = e.found[:cap(e.found)]; len(e.found) > mostKept {
		e.found = nil
	}
	clear(e.found)
	e.found = e.found[:0]
}
