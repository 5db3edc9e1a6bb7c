package explain

import (
	"errors"
	"fmt"
	"strings"
)

// change makes an answer more like the other. It does one thing at a path: remove what is there,
// rewrite a text, or put in its place a part of it.
type change struct {
	At     path
	Of     side
	Remove bool
	// Rewrite replaces what a pattern finds in a text.
	Rewrite *struct {
		Pattern pattern
		By      string
	}
	// Keep is the path, below what is there, to the part that takes its place.
	Keep path
}

func (c change) check() error {
	things := 0
	for _, one := range []bool{c.Remove, c.Rewrite != nil, len(c.Keep) > 0} {
		if one {
			things++
		}
	}
	switch {
	case len(c.At) == 0:
		return errors.New("a change has no path: give it an at")
	case things != 1:
		return fmt.Errorf("the change at %s does %d things: give it one of remove, rewrite and keep", c.At, things)
	case c.Of != recorded && c.Of != served && c.Of != both:
		return fmt.Errorf("the change at %s is of %q: want recorded, served or both", c.At, c.Of)
	default:
		return nil
	}
}

// apply returns what the change leaves of the two answers.
func (c change) apply(istiod, discovery any) (any, any) {
	if c.Of != served {
		istiod, _ = c.At.replace(istiod, c.replacement)
	}
	if c.Of != recorded {
		discovery, _ = c.At.replace(discovery, c.replacement)
	}
	return istiod, discovery
}

// replacement is what takes the place of a value: nil removes it.
func (c change) replacement(value any) any {
	switch {
	case c.Remove:
		return nil
	case c.Rewrite != nil:
		if text, ok := value.(string); ok {
			return c.Rewrite.Pattern.ReplaceAllString(text, c.Rewrite.By)
		}
		return value
	default:
		return c.Keep.find(value)
	}
}

// path leads to values in a tree: names of members and numbers of items, "*" for any one, "**" for
// any number of them, and member.member=value for the items of a list that have such a member; the
// value may end in "*".
type path []string

// UnmarshalText makes a path of how it is written.
func (p *path) UnmarshalText(text []byte) error {
	*p = strings.Split(string(text), "/")
	return nil
}

func (p path) String() string { return strings.Join(p, "/") }

// replace puts what a function makes of each value that the path leads to in its place. It reports
// whether anything is left of the tree.
func (p path) replace(tree any, by func(any) any) (any, bool) {
	if len(p) == 0 {
		made := by(tree)
		return made, made != nil
	}
	if p[0] == "**" {
		tree, _ = p[1:].replace(tree, by)
	}
	switch t := tree.(type) {
	case map[string]any:
		for name, value := range t {
			if rest, leads := p.step(name, value); leads {
				replaceMember(t, name, rest, by)
			}
		}
		return t, true
	case []any:
		return p.replaceItems(t, by)
	default:
		return tree, tree != nil
	}
}

func replaceMember(t map[string]any, name string, rest path, by func(any) any) {
	if value, left := rest.replace(t[name], by); left {
		t[name] = value
	} else {
		delete(t, name)
	}
}

// replaceItems leaves nothing of a list that loses its last item: Envoy's messages do not tell an
// empty list from none.
func (p path) replaceItems(items []any, by func(any) any) (any, bool) {
	var kept []any
	for i, item := range items {
		rest, leads := p.step(fmt.Sprint(i), item)
		left := true
		if leads {
			item, left = rest.replace(item, by)
		}
		if left {
			kept = append(kept, item)
		}
	}
	if len(kept) == 0 {
		return nil, false
	}
	return kept, true
}

// step reports whether the path leads to the child of some name, and what is left of it there.
func (p path) step(name string, child any) (rest path, leads bool) {
	switch first := p[0]; first {
	case "**":
		return p, true
	case "*", name:
		return p[1:], true
	default:
		members, value, selects := strings.Cut(first, "=")
		return p[1:], selects && path(strings.Split(members, ".")).is(child, value)
	}
}

// is reports whether there is this text at the path.
func (p path) is(tree any, text string) bool {
	found, isText := p.find(tree).(string)
	if begin, open := strings.CutSuffix(text, "*"); open {
		return isText && strings.HasPrefix(found, begin)
	}
	return isText && found == text
}

// find is the first value that the path leads to, or nil.
func (p path) find(tree any) (found any) {
	_, _ = p.replace(tree, func(value any) any {
		if found == nil {
			found = value
		}
		return value
	})
	return found
}
