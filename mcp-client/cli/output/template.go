package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/pgmesh/pgmesh/mcp-client/cli/gotemplate"
)

// Templates are those of kubectl, so existing scripts and knowledge apply. Those of jsonpath are parsed
// by the same library, which is one package of the Kubernetes client, without the rest.

// bare matches a path without braces.
var bare = regexp.MustCompile(`^\.?[^{}]+$`)

// parsePath checks a template. A single path may omit the braces and the leading dot.
func parsePath(text string) (string, error) {
	if text == "" {
		return "", errors.New(`it needs a template, such as jsonpath='{.spec.hosts[0]}'`)
	}
	if bare.MatchString(text) {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	if err := jsonpath.New("output").Parse(text); err != nil {
		return "", fmt.Errorf("the template %s: %w", text, err)
	}
	return text, nil
}

// evaluate applies a template to a tree. Missing fields are empty.
func evaluate(path string, tree any) (text []byte, err error) {
	template := jsonpath.New("output").AllowMissingKeys(true)
	if err := template.Parse(path); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := template.Execute(&b, tree); err != nil {
		return nil, fmt.Errorf("the template %s: %w", path, err)
	}
	return b.Bytes(), nil
}

// Path is a template of jsonpath that finds values in resources.
type Path string

// ParsePath reads a path, with or without braces.
func ParsePath(text string) (Path, error) {
	path, err := parsePath(text)
	return Path(path), err
}

// In returns what the path finds in JSON, "" for nothing.
func (p Path) In(text []byte) (string, error) {
	tree, err := treeOf(text)
	if err != nil {
		return "", err
	}
	found, err := evaluate(string(p), tree)
	return string(found), err
}

// PrintTemplate prints what the template, of jsonpath or of Go, makes of an answer, which is JSON.
func (p *Printer) PrintTemplate(text []byte) error {
	tree, err := treeOf(text)
	if err != nil {
		return err
	}
	if p.Output.Format == GoTemplate {
		return p.PrintExactly(p.Output.template.Execute(tree))
	}
	return p.PrintExactly(evaluate(p.Output.path, tree))
}

func parseGoTemplate(text string) (*gotemplate.Template, error) {
	if text == "" {
		return nil, errors.New("it needs a template, such as go-template='{{.spec.hosts}}'")
	}
	return gotemplate.Parse(text)
}

// treeOf decodes JSON with integers as such, so that templates print and compare 80 as 80.
func treeOf(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	return withNumbers(tree), nil
}

func withNumbers(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for k, v := range tree {
			tree[k] = withNumbers(v)
		}
	case []any:
		for i, v := range tree {
			tree[i] = withNumbers(v)
		}
	case json.Number:
		if whole, err := tree.Int64(); err == nil {
			return whole
		}
		if number, err := tree.Float64(); err == nil {
			return number
		}
		return tree.String()
	}
	return tree
}

// customColumn is one of custom-columns=TITLE:PATH,...
type customColumn struct{ title, path string }

func parseColumns(text string) ([]customColumn, error) {
	var columns []customColumn
	for part := range strings.SplitSeq(text, ",") {
		title, path, found := strings.Cut(part, ":")
		if !found {
			return nil, fmt.Errorf("the column %q is not of the form TITLE:PATH, such as HOSTS:.spec.hosts", part)
		}
		path, err := parsePath(path)
		if err != nil {
			return nil, err
		}
		columns = append(columns, customColumn{title, path})
	}
	return columns, nil
}

// printCustomColumns writes a row per item of a List or an array, or one row for a single object.
func (p *Printer) printCustomColumns(text []byte) error {
	tree, err := treeOf(text)
	if err != nil {
		return err
	}
	w, goesOn := p.table(nil)
	var titles []string
	for _, c := range p.Output.columns {
		titles = append(titles, c.title)
	}
	if !p.NoHeaders && !goesOn && strings.Join(titles, "") != "" {
		w.Row(titles...)
	}
	for _, item := range itemsOf(tree) {
		var cells []string
		for _, c := range p.Output.columns {
			cell, err := evaluate(c.path, item)
			if err != nil {
				return err
			}
			cells = append(cells, CellText(cell))
		}
		w.Row(cells...)
	}
	return w.Flush()
}

// CellText fits a value into a cell of a table.
func CellText(value []byte) string {
	if len(value) == 0 {
		return "<none>" // like kubectl
	}
	return strings.Join(strings.Fields(string(value)), " ")
}

func itemsOf(tree any) []any {
	switch tree := tree.(type) {
	case []any:
		return tree
	case map[string]any:
		if items, ok := tree["items"].([]any); ok {
			return items
		}
	}
	return []any{tree}
}
