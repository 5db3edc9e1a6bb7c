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

	"github.com/pgmesh/pgmesh/internal/nearest"
	"github.com/pgmesh/pgmesh/internal/terminal"
)

// Formats are how answers are printed.
var Formats = []string{"table", "json", "yaml"}

// CheckFormat refuses what is none of them.
func CheckFormat(format string, known []string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return fmt.Errorf("-o %s: %s", format, nearest.Hint(format, known, "choose one of "))
}

// Print prints a value in a format, of which the table is left to the caller.
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

// printYAML has the names and the order that JSON has.
func printYAML(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(refusedByYAML.ReplaceAllFunc(text, named), document); err != nil {
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

// refusedByYAML are characters that may stand in JSON as they are, and in YAML by their names alone.
var refusedByYAML = regexp.MustCompile(`[\x{7f}-\x{9f}\x{fffe}\x{ffff}]`)

func named(character []byte) []byte {
	r, _ := utf8.DecodeRune(character)
	return fmt.Appendf(nil, `\u%04x`, r)
}

// unfold gives a document that was read from JSON the style that people write.
func unfold(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		unfold(c)
	}
}

// aligned writes columns. It is flushed by its owner.
func aligned(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 3, ' ', 0) }

func row(w io.Writer, cells ...string) {
	for i, c := range cells {
		cells[i] = cmp.Or(terminal.Line(c), "-")
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}
