package store

import (
	"regexp"
	"strings"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// quickPredicate writes a rule as a predicate on the object that needs no variables, so that all such rules of a type can be asked in one.
// A rule about each item becomes a question for an item of which it holds: $item becomes @ there.
func quickPredicate(r *schema.Rule) (string, bool) {
	switch {
	case r.Wrong == "" || otherVariable.MatchString(withoutStrings(r.Wrong)):
		return "", false
	case r.Each == "":
		return "(" + r.Wrong + ")", !itemVariable.MatchString(withoutStrings(r.Wrong))
	}
	predicate, ok := aboutCurrent(r.Wrong)
	if !ok {
		return "", false
	}
	list := "$"
	for _, step := range r.Steps {
		list += `."` + step.Field + `"` + map[string]string{"list": "[*]", "map": ".*"}[step.Shape]
	}
	return "exists(" + list + " ? (" + predicate + "))", true
}

var (
	otherVariable = regexp.MustCompile(`\$(i|key|parent|meta)\b`)
	itemVariable  = regexp.MustCompile(`\$item\b`)
	stringLiteral = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	filterStart   = regexp.MustCompile(`^\?\s*\(`)
)

func withoutStrings(predicate string) string { return stringLiteral.ReplaceAllString(predicate, `""`) }

// aboutCurrent writes @ for $item. Inside of a filter @ is something else, so there $item cannot be replaced.
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
