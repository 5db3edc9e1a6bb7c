package kindtables

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// quickPredicate writes a rule as a predicate on the object that needs no variable except $meta, so
// that all such rules of a type can be combined. For a rule about each item it asks for an item
// that breaks it, which is @ instead of $item.
func quickPredicate(r *schema.Rule) (string, bool) {
	plain := withoutStrings(r.Wrong)
	if r.Wrong == "" || otherVariable.MatchString(plain) || r.Each == "" && itemVariable.MatchString(plain) {
		return "", false
	}
	predicate := r.Wrong
	if r.Each != "" {
		about, ok := aboutCurrent(r.Wrong)
		if !ok {
			return "", false
		}
		predicate = "exists(" + listOf(r) + " ? (" + about + "))"
	}
	return whenever(r, predicate), true
}

func whenever(r *schema.Rule, predicate string) string {
	if r.When != "" {
		return "((" + r.When + ") && (" + predicate + "))"
	}
	return "(" + predicate + ")"
}

// guard is a predicate that holds for all objects that may break a rule, and for few others.
func guard(r *schema.Rule) string {
	list := listOf(r)
	switch last := strings.LastIndex(list, "[*]"); {
	case r.Each == "" && r.When != "":
		return "(" + r.When + ")"
	case r.Each == "":
		return "(exists($))"
	case r.Unique != nil && strings.Count(list, "[*]") == 1: // repetition handles these
		list = list[:last] + "[" + strconv.Itoa(shortList) + "]" + list[last+len("[*]"):]
	}
	return whenever(r, "exists("+list+")")
}

// shortList is how many items of a list repetition compares.
const shortList = 8

// repetition holds if the first items of a list repeat what must be unique.
func repetition(r *schema.Rule) (string, bool) {
	before, after, ok := strings.Cut(listOf(r), "[*]")
	if r.Unique == nil || !ok || strings.ContainsAny(after, "*") {
		return "", false
	}
	if *r.Unique != "" {
		after += `."` + *r.Unique + `"`
	}
	var pairs []string
	for i := range shortList - 1 {
		pairs = append(pairs, fmt.Sprintf("%s[%d]%s == %s[%d to last]%s", before, i, after, before, i+1, after))
	}
	return whenever(r, strings.Join(pairs, " || ")), true
}

// missing holds if a required field is absent, and clashing if more than one of mutually exclusive
// fields is present.
func missing(t *schema.Type) string {
	var predicates []string
	for _, f := range t.Fields {
		if f.Required {
			predicates = append(predicates, "!exists($."+literal(f.Name)+")")
		}
	}
	return anyOf(predicates...)
}

func clashing(t *schema.Type) string {
	var predicates []string
	for _, names := range t.Oneofs {
		for i, name := range names[:len(names)-1] {
			others := make([]string, 0, len(names))
			for _, other := range names[i+1:] {
				others = append(others, "exists($."+literal(other)+")")
			}
			predicates = append(predicates, "exists($."+literal(name)+") && "+parenthesised(anyOf(others...)))
		}
	}
	return anyOf(predicates...)
}

// listOf returns the path to the items that a rule is about.
func listOf(r *schema.Rule) string {
	steps := []string{"$"}
	for _, step := range r.Steps {
		steps = append(steps, `."`+step.Field+`"`+map[string]string{"list": "[*]", "map": ".*"}[step.Shape])
	}
	return strings.Join(steps, "")
}

var (
	otherVariable = regexp.MustCompile(`\$(i|key|parent)\b`)
	itemVariable  = regexp.MustCompile(`\$item\b`)
	stringLiteral = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	filterStart   = regexp.MustCompile(`^\?\s*\(`)
)

// withoutStrings empties the strings of a predicate, which may have a $ that begins no variable.
func withoutStrings(predicate string) string { return stringLiteral.ReplaceAllString(predicate, `""`) }

// aboutCurrent replaces $item by @. Within a filter @ means something else, so there it reports
// false.
func aboutCurrent(predicate string) (string, bool) {
	var out strings.Builder
	depth, filters := 0, []int(nil) // how many parentheses are open, and which of them are filters
	for rest := predicate; rest != ""; {
		part := rest[:1]
		switch {
		case part == `"`:
			part = stringLiteral.FindString(rest)
		case filterStart.MatchString(rest):
			part = filterStart.FindString(rest)
			depth++
			filters = append(filters, depth)
		case part == "(":
			depth++
		case part == ")":
			if len(filters) > 0 && filters[len(filters)-1] == depth {
				filters = filters[:len(filters)-1]
			}
			depth--
		case itemVariable.FindStringIndex(rest) != nil && itemVariable.FindStringIndex(rest)[0] == 0:
			if len(filters) > 0 {
				return "", false
			}
			part = "$item"
			out.WriteString("@")
			rest = rest[len(part):]
			continue
		}
		out.WriteString(part)
		rest = rest[len(part):]
	}
	return out.String(), true
}
