package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// colors is the value of the flag --color.
type colors string

const (
	colorAuto   colors = "auto"
	colorAlways colors = "always"
	colorNever  colors = "never"
)

var colorChoices = []string{string(colorAuto), string(colorAlways), string(colorNever)}

// Set, String and Type implement the interface of a flag.
func (c *colors) Set(text string) error {
	if !slices.Contains(colorChoices, text) {
		return fmt.Errorf("expected one of %s", strings.Join(colorChoices, ", "))
	}
	*c = colors(text)
	return nil
}

func (c *colors) String() string { return string(*c) }

// Type is the flag's type in the help.
func (c *colors) Type() string { return "when" }

// CompleteColors completes the flag --color.
var CompleteColors = cobra.FixedCompletions(colorChoices, cobra.ShellCompDirectiveNoFileComp)

// colored reports whether to print colours: when writing to a terminal, unless the user does not
// want them (https://no-color.org).
func (p *Printer) colored() bool {
	switch p.colors {
	case colorAlways:
		return true
	case colorNever:
		return false
	case colorAuto:
	}
	return p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb" && terminal.Is(p.Out)
}

// Paint styles text if output is coloured.
func (p *Printer) Paint(s terminal.Style, text string) string {
	if !p.colored() {
		return text
	}
	return s.Paint(text)
}

var actionStyles = map[string]terminal.Style{"created": terminal.Green, "changed": terminal.Yellow, "deleted": terminal.Red}

// PaintAction styles text as the action asks for: created, changed or deleted.
func (p *Printer) PaintAction(action, text string) string { return p.Paint(actionStyles[action], text) }
