package explain

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/conformance/recording"
)

// Compare lists the unexplained differences between the answers to a case. It modifies both
// answers.
func (all Explanations) Compare(c *Case, istiod, discovery *recording.Recording) (unexplained []string) {
	applicable := all.of(c)
	names := maps.Clone(istiod.Resources)
	maps.Copy(names, discovery.Resources)
	for _, r := range slices.SortedFunc(maps.Keys(names), byName) {
		switch i, d := istiod.Resources[r], discovery.Resources[r]; {
		case !istiod.Kinds[r.Kind]: // istiod was not asked
		case d == nil && !applicable.only(r, recorded):
			unexplained = append(unexplained, r.String()+": only istiod has it")
		case i == nil && !applicable.only(r, served):
			unexplained = append(unexplained, r.String()+": only discovery has it")
		case i != nil && d != nil:
			for _, left := range applicable.compare(r, i, d) {
				unexplained = append(unexplained, r.String()+": "+left.String())
			}
		}
	}
	return unexplained
}

func byName(a, b recording.Resource) int { return strings.Compare(a.String(), b.String()) }

// Fails lists the unexplained failures of a case.
func (all Explanations) Fails(c *Case, failures []string) (unexplained []string) {
	applicable := all.of(c)
	for _, f := range failures {
		at := slices.IndexFunc(applicable, func(e *Explanation) bool { return e.Fails.Regexp != nil && e.Fails.matches(f) })
		if at < 0 {
			unexplained = append(unexplained, f)
			continue
		}
		applicable[at].used++
	}
	return unexplained
}

// Uses counts how often there was something to explain.
func (all Explanations) Uses() (uses int) {
	for _, e := range all {
		uses += e.used
	}
	return uses
}

// Uses counts how often this explanation was needed.
func (e *Explanation) Uses() int { return e.used }

// Unneeded lists the explanations that explained nothing.
func (all Explanations) Unneeded() (unneeded Explanations) {
	for _, e := range all {
		if e.used == 0 {
			unneeded = append(unneeded, e)
		}
	}
	return unneeded
}

func (all Explanations) of(c *Case) (applicable Explanations) {
	for _, e := range all {
		if e.When.holds(c) {
			applicable = append(applicable, e)
		}
	}
	return applicable
}

// only reports whether a resource is explained that only one side has.
func (all Explanations) only(r recording.Resource, has side) bool {
	for _, e := range all {
		if e.Only == has && e.concerns(r) {
			e.used++
			return true
		}
	}
	return false
}

// compare applies one explanation after the other for as long as there is a difference.
func (all Explanations) compare(r recording.Resource, istiod, discovery any) []Difference {
	left := differences("", istiod, discovery)
	for _, e := range all {
		if len(left) == 0 {
			return nil
		}
		if !e.concerns(r) || len(e.Changes) == 0 {
			continue
		}
		for _, c := range e.Changes {
			istiod, discovery = c.apply(istiod, discovery)
		}
		now := differences("", istiod, discovery)
		if !reflect.DeepEqual(left, now) {
			e.used++
		}
		left = now
	}
	return left
}
