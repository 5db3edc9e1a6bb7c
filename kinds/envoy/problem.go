package envoy

import "github.com/pgmesh/pgmesh/kinds/schema"

// Problem is something wrong with a patch of an EnvoyFilter.
type Problem struct {
	schema.Problem

	Level Level
}

// Level is what a problem means for the patch.
type Level int

const (
	// Invalid patches cannot be applied, or Envoy would refuse the result.
	Invalid Level = iota
	// Unknown fields or values do not exist in the Envoy that this package knows. Another version
	// may have them, so discovery applies the patch without them; but validation refuses new ones.
	Unknown
	// Idle patches have no effect.
	Idle
)

// InWords returns the reason and the hint, without the path.
func (p *Problem) InWords() string {
	if p.Hint == "" {
		return p.Reason
	}
	return p.Reason + " (" + p.Hint + ")"
}

// checker collects problems.
type checker struct {
	problems []Problem
	fatal    int
}

func (c *checker) invalid(path, reason, hint string) {
	c.fatal++
	c.add(Invalid, path, reason, hint)
}

func (c *checker) unknown(path, reason, hint string) { c.add(Unknown, path, reason, hint) }

func (c *checker) idle(path, reason, hint string) { c.add(Idle, path, reason, hint) }

func (c *checker) add(level Level, path, reason, hint string) {
	c.problems = append(c.problems, Problem{schema.Problem{Path: path, Reason: reason, Hint: hint}, level})
}
