package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Counted tells of the same thing at many places as one: where it is first, and where else.
type Counted struct {
	to    *Report
	all   []*counted
	known map[Place]*counted // by what is told, without a line
	seen  map[Place]bool     // the same, with it
}

// counted is what is told of all its places.
type counted struct {
	what, instead string
	tell          func(at Place, what, instead string)
	places        []Place
}

// NewCounted returns one that tells to a report.
func NewCounted(to *Report) *Counted {
	return &Counted{to: to, known: map[Place]*counted{}, seen: map[Place]bool{}}
}

// Lose tells of something that is lost at one of its places. What is told alike of the same path is one thing.
func (c *Counted) Lose(at Place, what, instead string) {
	c.add(at, counted{what: what, instead: instead, tell: c.to.Lose})
}

// Note tells of something that is no loss at one of its places.
func (c *Counted) Note(at Place, what, hint string) {
	c.add(at, counted{what: what, instead: hint, tell: c.to.Note})
}

func (c *Counted) add(at Place, one counted) {
	alike := Place{Path: at.Path, Name: one.what, Kind: one.instead}
	before := alike
	if before.File, before.Line = at.File, at.Line; c.seen[before] {
		return
	}
	c.seen[before] = true
	if c.known[alike] == nil {
		c.known[alike] = &one
		c.all = append(c.all, &one)
	}
	c.known[alike].places = append(c.known[alike].places, at)
}

// Tell reports all of it. It is called once, at the end.
func (c *Counted) Tell() {
	for _, one := range c.all {
		slices.SortStableFunc(one.places, func(a, b Place) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
		one.tell(one.places[0], one.what+also(one.places), one.instead)
	}
}

// mostLines bounds how many lines are named.
const mostLines = 20

// also says where else something is.
func also(places []Place) string {
	first, last := places[0], places[len(places)-1]
	switch {
	case len(places) == 1:
		return ""
	case first.File != last.File:
		return fmt.Sprintf("; it is at %d places, the last in %s", len(places), last.File)
	case len(places) > mostLines:
		return fmt.Sprintf("; it is at %d places, the last in line %d", len(places), last.Line)
	}
	lines := make([]string, len(places))
	for i, at := range places {
		lines[i] = fmt.Sprint(at.Line)
	}
	return "; it is in lines " + strings.Join(lines, ", ")
}
