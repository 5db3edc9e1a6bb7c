package cli

import (
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/pgmesh/pgmesh/internal/terminal"
	"github.com/pgmesh/pgmesh/kinds"
)

// textOf is a resource as it is compared and shown: as people write it, without what it is not up to them to write. One that
// there is not is no text.
func textOf(r *kinds.Resource) (string, error) {
	if r == nil {
		return "", nil
	}
	written := *r
	written.CreateTime = time.Time{}
	text, err := kinds.MarshalYAML(&written)
	return string(text), err
}

// unified is the difference between two texts in the form that patch takes, "" if there is none.
func unified(from, to, before, after string) string { return udiff.Unified(from, to, before, after) }

// paintDiff colours a difference line by line.
func (p *Program) paintDiff(text string) string {
	if !p.colored() {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		bare, end := strings.CutSuffix(line, "\n")
		b.WriteString(p.paint(styleOf(bare), bare))
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

// indent moves lines to the right.
func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}

// changedLines is a difference without its two lines of names, for where the name stands already.
func changedLines(before, after string) string {
	text := unified("before", "after", before, after)
	for range 2 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
