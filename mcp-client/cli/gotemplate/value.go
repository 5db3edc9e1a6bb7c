package gotemplate

import (
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
)

// pipe returns the value of a pipeline, and gives it to the variables that it declares.
func (r *run) pipe(dot any, p *parse.PipeNode) (any, error) {
	value, err := r.value(dot, p)
	if err != nil {
		return nil, err
	}
	for _, declared := range p.Decl {
		if err := r.set(declared.Ident[0], value, p.IsAssign); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// value returns the value of a pipeline: each command has that of the one before as its last argument.
func (r *run) value(dot any, p *parse.PipeNode) (any, error) {
	var before []any
	for _, c := range p.Cmds {
		value, err := r.command(dot, c, before)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c, err)
		}
		before = []any{value}
	}
	if len(before) == 0 {
		return nil, errors.New("an empty pipeline")
	}
	return before[0], nil
}

func (r *run) set(name string, value any, assign bool) error {
	if !assign {
		r.variables = append(r.variables, variable{name, value})
		return nil
	}
	known, err := r.variable(name)
	if err == nil {
		known.value = value
	}
	return err
}

func (r *run) variable(name string) (*variable, error) {
	for i := len(r.variables) - 1; i >= 0; i-- {
		if r.variables[i].name == name {
			return &r.variables[i], nil
		}
	}
	return nil, fmt.Errorf("there is no variable %s", name)
}

// command runs a command: a function with its arguments, or a value alone.
func (r *run) command(dot any, c *parse.CommandNode, before []any) (any, error) {
	function, is := c.Args[0].(*parse.IdentifierNode)
	if is {
		return r.function(dot, function.Ident, c.Args[1:], before)
	}
	if len(c.Args) > 1 || len(before) > 0 {
		return nil, fmt.Errorf("%s is no function, and takes no arguments", c.Args[0])
	}
	return r.operand(dot, c.Args[0])
}

func (r *run) operand(dot any, node parse.Node) (any, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.NilNode:
		return nil, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		return number(n)
	case *parse.PipeNode:
		return r.pipe(dot, n)
	case *parse.IdentifierNode:
		return r.function(dot, n.Ident, nil, nil)
	case *parse.FieldNode:
		return member(dot, n.Ident)
	case *parse.VariableNode:
		known, err := r.variable(n.Ident[0])
		if err != nil {
			return nil, err
		}
		return member(known.value, n.Ident[1:])
	case *parse.ChainNode:
		of, err := r.operand(dot, n.Node)
		if err != nil {
			return nil, err
		}
		return member(of, n.Field)
	}
	return nil, fmt.Errorf("%s is no value", node)
}

// number returns a constant: a float if it is written as one, as 1.0 and 1e3 are.
func number(n *parse.NumberNode) (any, error) {
	written := strings.ContainsAny(n.Text, ".eEpP") && n.Text[0] != '\'' && (!strings.HasPrefix(strings.ToLower(n.Text), "0x") || strings.ContainsAny(n.Text, "pP"))
	switch {
	case n.IsComplex:
	case n.IsInt && !written:
		return n.Int64, nil
	case n.IsFloat:
		return n.Float64, nil
	}
	return nil, fmt.Errorf("%s is no number of JSON", n)
}

// member follows the names of members from a value. Of what is missing, all is.
func member(of any, names []string) (any, error) {
	for _, name := range names {
		switch object := of.(type) {
		case nil:
			return nil, nil
		case map[string]any:
			of = object[name]
		default:
			return nil, fmt.Errorf("there is no %s in %s", name, described(of))
		}
	}
	return of, nil
}

// function runs a function. "and", like "or", looks at no more arguments than it needs.
func (r *run) function(dot any, name string, args []parse.Node, before []any) (any, error) {
	var values []any
	for _, arg := range args {
		value, err := r.operand(dot, arg)
		if err != nil {
			return nil, err
		}
		if name == "and" && !truth(value) || name == "or" && truth(value) {
			return value, nil
		}
		values = append(values, value)
	}
	values = append(values, before...)
	if name != "and" && name != "or" {
		return functions[name](values)
	}
	if len(values) == 0 {
		return nil, errors.New("it takes one argument at least")
	}
	return values[len(values)-1], nil // those before did not decide
}
