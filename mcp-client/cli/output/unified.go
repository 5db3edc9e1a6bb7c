package output

import (
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
)

// TextOf formats a resource for comparison, without the fields that users do not write. A nil
// resource has no text.
func TextOf(r *kinds.Resource) (string, error) {
	if r == nil {
		return "", nil
	}
	written := *r
	written.CreateTime = time.Time{}
	text, err := kinds.MarshalYAML(&written)
	return string(text), err
}

// Unified returns a unified diff of two texts, "" if they are equal.
func Unified(from, to, before, after string) string { return udiff.Unified(from, to, before, after) }

// PaintDiff colours a diff line by line.
func (p *Printer) PaintDiff(text string) string {
	if !p.colored() {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		bare, end := strings.CutSuffix(line, "\n")
		b.WriteString(p.Paint(styleOf(bare), bare))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func styleOf(line string) terminal.Style {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return terminal.Bold
	case strings.HasPrefix(line, "@@"):
		return terminal.Cyan
	case strings.HasPrefix(line, "-"):
		return terminal.Red
	case strings.HasPrefix(line, "+"):
		return terminal.Green
	}
	return terminal.Plain
}

// Indent indents all lines.
func Indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}

// ChangedLines is a unified diff without its header, for places that show the name already.
func ChangedLines(before, after string) string {
	text := Unified("before", "after", before, after)
	for range 2 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
