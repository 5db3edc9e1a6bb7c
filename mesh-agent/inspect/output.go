package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// Formats are the output formats.
var Formats = []string{"table", "json", "yaml"}

// CheckFormat returns an error for an unknown format.
func CheckFormat(format string, known []string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return fmt.Errorf("-o %s: %s", format, nearest.Hint(format, known, "choose one of "))
}

// Print prints a value in a format; the caller prints the table.
func Print(out io.Writer, format string, value any, table func(io.Writer) error) error {
	switch format {
	case "json":
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(value)
	case "yaml":
		return printYAML(out, value)
	default:
		return table(out)
	}
}

// printYAML prints names and order as JSON has them.
func printYAML(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(refusedByYAML.ReplaceAllFunc(text, escape), document); err != nil {
		return err
	}
	unfold(document)
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	if err := e.Encode(document); err != nil {
		return err
	}
	return e.Close()
}

// refusedByYAML matches characters that JSON may contain as they are but YAML must escape.
var refusedByYAML = regexp.MustCompile(`[\x{7f}-\x{9f}\x{fffe}\x{ffff}]`)

func escape(character []byte) []byte {
	r, _ := utf8.DecodeRune(character)
	return fmt.Appendf(nil, `\u%04x`, r)
}

// unfold removes the JSON style from a document.
func unfold(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		unfold(c)
	}
}

// newTable returns a writer of aligned columns, which the caller flushes.
func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 3, ' ', 0) }

func row(w io.Writer, cells ...string) {
	for i, c := range cells {
		cells[i] = cmp.Or(terminal.Line(c), "-")
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}
