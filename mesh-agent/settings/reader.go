package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// reader reads a document and collects all problems, so that people need not fix them one by one.
type reader struct {
	path     string
	problems []problem
}

type problem struct {
	line int // 0 for the whole file
	text string
}

func (r *reader) problemf(at *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, problem{at.Line, fmt.Sprintf(format, args...)})
}

func (r *reader) fileProblemf(format string, args ...any) { r.problemf(&yaml.Node{}, format, args...) }

// err returns all problems, one a line, sorted by line.
func (r *reader) err() error {
	slices.SortStableFunc(r.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, p := range r.problems {
		where := r.path
		if p.line > 0 {
			where += ":" + strconv.Itoa(p.line)
		}
		all = append(all, errors.New(where+": "+p.text))
	}
	return errors.Join(all...)
}

// object reads a map whose keys have to be known fields.
func (r *reader) object(n *yaml.Node, what string, fields map[string]func(key, value *yaml.Node)) {
	r.pairs(n, "a map", func(key, value *yaml.Node) {
		read, known := fields[key.Value]
		if !known {
			r.problemf(key, "%q is no %s: %s", key.Value, what, nearest.Hint(key.Value, slices.Sorted(maps.Keys(fields)), "there are "))
			return
		}
		read(key, value)
	})
}

// pairs reads a map whose keys are unique names.
func (r *reader) pairs(n *yaml.Node, wanted string, each func(key, value *yaml.Node)) {
	n = dealias(n)
	if n.Kind != yaml.MappingNode {
		r.problemf(n, "expected %s, not %s", wanted, kindOf(n))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := dealias(n.Content[i]), dealias(n.Content[i+1])
		if key.Kind != yaml.ScalarNode {
			r.problemf(key, "expected a name, not %s", kindOf(key))
			continue
		}
		if line := first[key.Value]; line > 0 {
			r.problemf(key, "%q is there twice: it was in line %d already", key.Value, line)
			continue
		}
		first[key.Value] = key.Line
		each(key, value)
	}
}

// list reads a list.
func (r *reader) list(n *yaml.Node, wanted string, each func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		r.problemf(n, "expected %s, not %s", wanted, kindOf(n))
		return
	}
	for _, item := range n.Content {
		each(dealias(item))
	}
}

// text reads a scalar as written: a label that looks like a number is a text too.
func (r *reader) text(name string, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		r.problemf(n, "%s: expected a text, not %s", name, kindOf(n))
		return ""
	}
	return n.Value
}

func (r *reader) texts(name string, n *yaml.Node) (all []string) {
	r.list(n, name+" as a list of texts", func(item *yaml.Node) { all = append(all, r.text(name, item)) })
	return all
}

func (r *reader) textMap(name string, n *yaml.Node) map[string]string {
	all := map[string]string{}
	r.pairs(n, name+" as a map of texts", func(key, value *yaml.Node) { all[key.Value] = r.text(name+": "+key.Value, value) })
	return all
}

func (r *reader) number(name string, n *yaml.Node, least, most uint32) uint32 {
	value, err := strconv.ParseUint(n.Value, 10, 32)
	if n.Kind != yaml.ScalarNode || err != nil || uint32(value) < least || uint32(value) > most {
		r.problemf(n, "%s: expected a number from %d to %d, not %s", name, least, most, kindOf(n))
		return least
	}
	return uint32(value)
}

// port reads a port. It returns 1 for an invalid one, so that nothing else complains about it.
func (r *reader) port(name string, n *yaml.Node) uint32 { return r.number(name, n, 1, 65535) }

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	default:
		return strconv.Quote(n.Value)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func has(n *yaml.Node, name string) bool {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return true
		}
	}
	return false
}

// dealias returns the node that an alias stands for.
func dealias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
