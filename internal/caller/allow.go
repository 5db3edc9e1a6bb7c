package caller

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Rule gives scopes to the identities that match a pattern.
type Rule struct {
	Pattern Pattern
	Scopes  []Scope
}

// AllowList lists which SPIFFE ids may call and their scopes.
type AllowList []Rule

// ParseRule parses PATTERN or PATTERN=SCOPE;SCOPE. Without scopes the rule allows reading.
func ParseRule(text string) (Rule, error) {
	pattern, scopes, given := strings.Cut(text, "=")
	r := Rule{Scopes: []Scope{{Verb: Read}}}
	var err error
	if r.Pattern, err = ParsePattern(strings.TrimSpace(pattern)); err != nil {
		return Rule{}, err
	}
	if r.Pattern.text == Anonymous {
		return Rule{}, fmt.Errorf("%s is not an identity that can be allowed by a rule: callers without a certificate may read with --anonymous-readers", Anonymous)
	}
	if given {
		parts := strings.Split(scopes, ";")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if r.Scopes, err = ParseScopes(parts); err != nil {
			return Rule{}, fmt.Errorf("%s: %w", r.Pattern, err)
		}
	}
	return r, nil
}

// ParseRules parses rules from flags.
func ParseRules(texts []string) (AllowList, error) {
	var list AllowList
	for _, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// ParseAllowFile parses a file with one rule per line. It ignores empty lines and comments after #.
func ParseAllowFile(content []byte) (AllowList, error) {
	var list AllowList
	number := 0
	for line := range bytes.Lines(content) {
		number++
		text, _, _ := strings.Cut(string(line), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		r, err := ParseRule(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// scopesOf returns the scopes of all rules that match an id.
func (l AllowList) scopesOf(id spiffeid.ID) []Scope {
	var scopes []Scope
	for _, r := range l {
		if r.Pattern.Matches(id.String()) {
			scopes = append(scopes, r.Scopes...)
		}
	}
	return scopes
}
