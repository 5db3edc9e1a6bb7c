// Package selector matches resources by their labels, in the syntax of Kubernetes:
//
//	app=reviews,tier!=front,version in (v1, v2),env notin (test),canary,!legacy
package selector

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Selector matches labels that meet all of its requirements. The zero value matches everything.
type Selector []Requirement

// Requirement is met if the value of the key is, or with Absent is not, one of Values. Nil Values
// match any value.
type Requirement struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
	Absent bool     `json:"absent"`
}

// Matches reports whether the labels meet every requirement. As in Kubernetes, labels without the
// key meet "key != value".
func (s Selector) Matches(labels map[string]string) bool {
	return !slices.ContainsFunc(s, func(r Requirement) bool { return !r.met(labels) })
}

func (r Requirement) met(labels map[string]string) bool {
	value, has := labels[r.Key]
	if r.Values != nil {
		has = has && slices.Contains(r.Values, value)
	}
	return has != r.Absent
}

// Parse parses a selector. An empty text matches everything.
func Parse(text string) (Selector, error) {
	var s Selector
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	for _, part := range split(text) {
		r, err := parseRequirement(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("label selector %q: %w", text, err)
		}
		s = append(s, r)
	}
	return s, nil
}

// split splits at the commas outside of parentheses.
func split(text string) []string {
	var parts []string
	depth, start := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

const (
	word = `([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)`
	void = `([A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|)` // a label's value may be empty
)

var (
	existence = regexp.MustCompile(`^(!?)\s*` + word + `$`)
	equality  = regexp.MustCompile(`^` + word + `\s*(==|=|!=)\s*` + void + `$`)
	set       = regexp.MustCompile(`^` + word + `\s+(in|notin)\s*\(([^()]*)\)$`)
	value     = regexp.MustCompile(`^` + void + `$`)
)

func parseRequirement(text string) (Requirement, error) {
	if m := existence.FindStringSubmatch(text); m != nil {
		return Requirement{Key: m[2], Absent: m[1] == "!"}, nil
	}
	if m := equality.FindStringSubmatch(text); m != nil {
		return Requirement{Key: m[1], Values: []string{m[3]}, Absent: m[2] == "!="}, nil
	}
	m := set.FindStringSubmatch(text)
	if m == nil {
		return Requirement{}, fmt.Errorf(`%q is not a requirement; write "key=value", "key!=value", "key in (a,b)", "key notin (a,b)", "key" or "!key"`, text)
	}
	values := strings.Split(m[3], ",")
	for i, v := range values {
		values[i] = strings.TrimSpace(v)
		if !value.MatchString(values[i]) {
			return Requirement{}, fmt.Errorf("%q is not a label value", values[i])
		}
	}
	return Requirement{Key: m[1], Values: values, Absent: m[2] == "notin"}, nil
}
