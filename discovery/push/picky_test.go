package push_test

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// picky decides what an Envoy refuses. It decides by content, so that the Envoy refuses the same
// again and again.
type picky struct {
	salt         uint32
	takesTheRest bool // of a response in which it refuses something
	tells        bool // names what it refuses
}

func newPicky(dice *rand.Rand) *picky {
	return &picky{salt: dice.Uint32(), takesTheRest: dice.IntN(2) == 0, tells: dice.IntN(2) == 0}
}

// dislikes reports whether a resource is one of the few that it refuses.
func (p *picky) dislikes(body []byte) bool {
	if p == nil {
		return false
	}
	h := fnv.New32a()
	_, _ = h.Write(body)
	return (h.Sum32()^p.salt)%13 == 0
}

// refuses lists what it refuses of a response.
func (p *picky) refuses(a *answer) (names []string) {
	for name, h := range a.resources {
		if p.dislikes(h.body) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *picky) reason(names []string) string {
	if p.tells {
		return "cannot take " + strings.Join(names, ", ")
	}
	return "no reason"
}

// without is a response with some resources as they were before, or without them.
func (a *answer) without(names []string, had map[string]held) *answer {
	rest := *a
	rest.resources = map[string]held{}
	for name, h := range a.resources {
		if !slices.Contains(names, name) {
			rest.resources[name] = h
		} else if before, ok := had[name]; ok {
			rest.resources[name] = before
		}
	}
	return &rest
}
