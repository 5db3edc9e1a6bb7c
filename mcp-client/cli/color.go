package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/terminal"
)

// colors is the flag --color.
type colors string

const (
	colorAuto   colors = "auto"
	colorAlways colors = "always"
	colorNever  colors = "never"
)

var colorChoices = []string{string(colorAuto), string(colorAlways), string(colorNever)}

// Set, String and Type make it a flag.
func (c *colors) Set(text string) error {
	if !slices.Contains(colorChoices, text) {
		return fmt.Errorf("expected one of %s", strings.Join(colorChoices, ", "))
	}
	*c = colors(text)
	return nil
}

func (c *colors) String() string { return string(*c) }

// Type names the flag's values in the help.
func (c *colors) Type() string { return "when" }

// colored tells whether what is printed has colours: if somebody looks who wants them (https://no-color.org).
func (p *Program) colored() bool {
	switch p.colors {
	case colorAlways:
		return true
	case colorNever:
		return false
	case colorAuto:
	}
	return p.Getenv("NO_COLOR") == "" && p.Getenv("TERM") != "dumb" && terminal.Is(p.Out)
}

// paint gives text a style if there are to be colours.
func (p *Program) paint(s terminal.Style, text string) string {
	if !p.colored() {
		return text
	}
	return s.Paint(text)
}
