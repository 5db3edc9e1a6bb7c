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
	// Invalid patches cannot be applied, or would make Envoy refuse what they are applied to.
	Invalid Level = iota
	// Unknown are fields that Envoy does not have, at least not the one known here. A config server of another version may mean
	// something by them, so a patch is applied without them; who writes one is refused.
	Unknown
	// Idle patches do nothing.
	Idle
)

// InWords is what is wrong and what to do about it, without the place.
func (p *Problem) InWords() string {
	if p.Hint == "" {
		return p.Reason
	}
	return p.Reason + " (" + p.Hint + ")"
}

// checking collects what is wrong.
type checking struct {
	problems []Problem
	fatal    int
}

func (c *checking) invalid(path, reason, hint string) {
	c.fatal++
	c.add(Invalid, path, reason, hint)
}

func (c *checking) unknown(path, reason, hint string) { c.add(Unknown, path, reason, hint) }

func (c *checking) idle(path, reason, hint string) { c.add(Idle, path, reason, hint) }

func (c *checking) add(level Level, path, reason, hint string) {
	c.problems = append(c.problems, Problem{schema.Problem{Path: path, Reason: reason, Hint: hint}, level})
}
