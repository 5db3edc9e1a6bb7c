// Package precedence turns rules that are tried one after the other into rules of the Gateway API, of
// which the narrowest counts, whatever their order.
//
// What decides there is the path first: an exact one before a prefix, a longer prefix before a shorter
// one, and regular expressions last, of which the longer text counts in pgmesh and in Istio. Then come
// the method, the number of headers and of parameters, and only then the order.
//
// Where this says otherwise than the source, there are three ways out. What the earlier rule has in
// common with the later one becomes a rule of its own, which is as narrow as the later one. Where no
// match can say that, both become regular expressions, and the earlier one is written longer. A rule that
// has to keep its prefix, since it replaces it, stays ahead of those; but where the earlier one lets
// nobody in, it lets nobody in either.
package precedence

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Rule is one match, and what becomes of its requests.
type Rule struct {
	Match Match
	To    int // what is done, in the caller's words
	// Replaces says that the rule replaces its prefix, which it must have then.
	Replaces bool
	// Refuses says that the rule lets nobody in, so that no other may have its requests.
	Refuses bool
}

// Nowhere is the To of requests that nothing is said for: they are to be refused.
const Nowhere = -1

// The types of paths in the Gateway API.
const (
	TypeExact  = "Exact"
	TypePrefix = "PathPrefix"
	TypeRegex  = "RegularExpression"
)

// Placed is a rule as the Gateway API has it.
type Placed struct {
	Match       Match // what the rule is for; its path is written as Type and Value
	Type, Value string
	To          int
	// Tail is what the path has beyond the prefix that its rule replaces.
	Tail string
}

// Order is what rules become.
type Order struct {
	Rules []Placed
	// Unreached are the indices of rules that no request comes to: those before have all of theirs.
	Unreached []int
	// Refused are the indices of rules that cannot be put in their place. Their requests are refused.
	Refused []int
	// Ahead are the indices of rules that replace a prefix, and have requests that an earlier rule had,
	// since no rule can come before them for these.
	Ahead []int
	// Beyond are the indices of rules that replace a prefix which is not one of whole segments. Requests
	// are refused that are in one and not in the other: /ab for /a, and /a for /a/ if no rule has it.
	Beyond []int
}

// item is a rule on its way into its place.
type item struct {
	Placed

	rule     int // its index; -1 of those that were added
	replaces bool
	refuses  bool
	ahead    bool   // of an earlier one
	base     string // the prefix that is replaced
}

// ErrTooMany means that rules overlap in too many ways.
var ErrTooMany = errors.New("the rules overlap in too many ways to be told in an order of the Gateway API")

// The bounds of what rules become, and of how often two of them are compared: some hundred rules of
// which each overlaps with each would take a minute.
const (
	maxItems       = 512
	maxComparisons = 4_000_000
)

// Of puts rules in order. The first that matches counts among the rules that it is given, and the
// narrowest among those that it returns.
func Of(rules []Rule) (*Order, error) {
	o := &ordering{}
	if len(rules) > maxItems {
		return nil, ErrTooMany
	}
	for i, r := range rules {
		o.add(i, r)
	}
	for i := 0; i < len(o.items) && len(o.items) <= maxItems; i++ {
		if o.items[i].hasHole() {
			o.fill(i)
		}
	}
	for passes := 0; o.pass(); passes++ {
		if len(o.items) > maxItems || passes > maxItems {
			return nil, ErrTooMany
		}
	}
	if o.comparisons > maxComparisons || !o.lengthen() {
		return nil, ErrTooMany
	}
	return o.order(len(rules)), nil
}

type ordering struct {
	items           []*item
	refused, beyond []int
	comparisons     int
}

// add writes a rule in the nearest form that the Gateway API has.
func (o *ordering) add(index int, r Rule) {
	i := &item{rule: index, replaces: r.Replaces, refuses: r.Refuses, Placed: Placed{Match: r.Match, To: r.To}}
	o.items = append(o.items, i)
	text := r.Match.Path.Text
	if r.Replaces {
		i.base = strings.TrimRight(text, "/")
	}
	switch {
	case r.Match.Path.Any():
		i.Type, i.Value = TypePrefix, "/"
	case !sayable(text) || r.Match.Path.Form == Regex:
		i.becomeRegex()
	case r.Match.Path.Form == Exact:
		i.Type, i.Value = TypeExact, text
	case r.Match.Path.Form == Segments || strings.HasSuffix(text, "/"):
		i.Type, i.Value = TypePrefix, trimmed(text)
	case r.Replaces:
		i.Type, i.Value, i.Match.Path.Form = TypePrefix, text, Segments
		o.beyond = append(o.beyond, index)
		o.items = append(o.items, refusal(r.Match, Path{Regex, regexp.QuoteMeta(text) + "[^/].*"}))
	default:
		i.becomeRegex()
	}
}

func refusal(m Match, path Path) *item {
	m.Path = path
	return &item{rule: -1, refuses: true, Placed: Placed{Match: m, Type: TypeRegex, Value: path.Text, To: Nowhere}}
}

func trimmed(prefix string) string { return cmp.Or(strings.TrimRight(prefix, "/"), "/") }

// unsayable is what no Exact or PathPrefix may have in it.
var (
	unsayable = regexp.MustCompile(`//|/[.][.]?(/|$)|%2[fF]|#`)
	sayableOf = regexp.MustCompile(`^/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*$`)
)

func sayable(path string) bool { return sayableOf.MatchString(path) && !unsayable.MatchString(path) }

func (i *item) becomeRegex() { i.Type, i.Value = TypeRegex, i.Match.Path.whole() }

// hasHole reports whether an item is written as /a and is for /a/, and what begins with it, alone.
func (i *item) hasHole() bool {
	return i.Type == TypePrefix && i.Match.Path.Form == Beginning && i.Value != "/"
}

// fill has the rules after an item say what becomes of the path that is in its prefix and not its own.
// Where there is no such rule for each request, and none before, the item becomes an expression.
func (o *ordering) fill(index int) {
	of := o.items[index]
	hole := Path{Exact, of.Value}
	before := slices.ContainsFunc(o.items[:index], func(i *item) bool { return i.Type == TypeExact && i.Match.Path == hole && i.Match.Unless(of.Match) })
	if before {
		return
	}
	out, closed := slices.Clone(o.items[:index+1]), false
	for _, later := range o.items[index+1:] {
		if !closed && later.Match.Path.covers(hole) {
			copied := *later
			copied.rule, copied.Match.Path, copied.Type, copied.Value = -1, hole, TypeExact, hole.Text
			out, closed = append(out, &copied), later.Match.Unless(of.Match)
		}
		out = append(out, later)
	}
	switch {
	case closed:
		o.items = out
	case !of.replaces:
		of.becomeRegex()
	default:
		last := refusal(of.Match, hole)
		last.Type = TypeExact
		out = append(out, last)
		o.items = out
		o.beyond = append(o.beyond, of.rule)
	}
}

// compare sorts what the Gateway API tries first to the front.
func compare(a, b *item) int {
	return cmp.Or(
		cmp.Compare(rank(b.Type), rank(a.Type)), cmp.Compare(len(b.Value), len(a.Value)), cmp.Compare(min(1, len(b.Match.Method)), min(1, len(a.Match.Method))),
		cmp.Compare(len(b.Match.Headers), len(a.Match.Headers)), cmp.Compare(len(b.Match.Params), len(a.Match.Params)),
	)
}

func rank(of string) int { return slices.Index([]string{TypeRegex, TypePrefix, TypeExact}, of) }

// pass looks once for items that are tried before one that should come first, and mends that. It
// reports whether there were some.
func (o *ordering) pass() (mended bool) {
	for j := 0; j < len(o.items); j++ {
		for i := 0; i < j && len(o.items) <= maxItems && o.comparisons <= maxComparisons; i++ {
			o.comparisons++
			earlier, later := o.items[i], o.items[j]
			if earlier.Match.Covers(later.Match) {
				o.items = slices.Delete(o.items, j, j+1)
				mended, j = true, j-1
				break
			}
			if compare(later, earlier) >= 0 || earlier.Type == TypeRegex && later.Type == TypeRegex || !earlier.Match.Overlaps(later.Match) {
				continue
			}
			switch added, done := o.common(i, j); {
			case done:
			case added != nil:
				o.items = slices.Insert(o.items, i, added)
				mended, j = true, j+1
				i++
			case later.replaces && !earlier.refuses && !earlier.replaces:
				later.ahead = true
			default:
				o.demote(earlier)
				o.demote(later)
				mended = true
			}
		}
	}
	return mended
}

// common is what two items have in common, as narrow as the later one, with what the earlier one does.
// It is done if an item before has all of that. There is none if no match can say it.
func (o *ordering) common(i, j int) (added *item, done bool) {
	earlier, later := o.items[i], o.items[j]
	m, ok := earlier.Match.Meet(later.Match)
	if !ok {
		return nil, false
	}
	added = &item{rule: -1, replaces: earlier.replaces, refuses: earlier.refuses, base: earlier.base, Placed: Placed{Match: m, Type: later.Type, Value: later.Value, To: earlier.To}}
	if m.Path != later.Match.Path {
		added.Type, added.Value = earlier.Type, earlier.Value
	}
	for _, k := range o.items[:i] {
		o.comparisons++
		if k.Match.Covers(m) {
			return nil, true // it is for that one to come before the later one
		}
	}
	if compare(added, later) > 0 {
		return nil, false
	}
	return added, false
}

// demote makes an expression of an item. One that replaces its prefix refuses its requests instead.
func (o *ordering) demote(i *item) {
	if i.Type == TypeRegex {
		return
	}
	if i.replaces {
		i.replaces, i.To = false, Nowhere
		if i.rule >= 0 {
			o.refused = append(o.refused, i.rule)
		}
	}
	i.becomeRegex()
}

// lengthen writes expressions longer that have to come before others. It reports whether that is
// possible.
func (o *ordering) lengthen() bool {
	for i, earlier := range slices.Backward(o.items) {
		if earlier.Type != TypeRegex {
			continue
		}
		for _, later := range o.items[i+1:] {
			for later.Type == TypeRegex && compare(later, earlier) < 0 && earlier.Match.Overlaps(later.Match) {
				if earlier.Value = "(?:" + earlier.Value + ")"; len(earlier.Value) > maxValue {
					return false
				}
			}
		}
	}
	return true
}

// maxValue is how long a path of the Gateway API may be.
const maxValue = 1024

func (o *ordering) order(rules int) *Order {
	out := &Order{Refused: o.refused, Beyond: o.beyond}
	reached := make([]bool, rules)
	for _, i := range o.items {
		if i.replaces {
			i.Tail = strings.TrimPrefix(i.Value, i.base)
			if i.Type == TypePrefix {
				i.Tail = strings.TrimSuffix(i.Tail, "/")
			}
		}
		out.Rules = append(out.Rules, i.Placed)
		if i.ahead && i.replaces && !slices.Contains(out.Ahead, i.To) {
			out.Ahead = append(out.Ahead, i.To)
		}
		if i.rule >= 0 {
			reached[i.rule] = true
		}
	}
	for i, is := range reached {
		if !is {
			out.Unreached = append(out.Unreached, i)
		}
	}
	return out
}
