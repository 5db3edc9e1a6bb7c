package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// What predicates of SQL/JSON paths are made of. "" is a predicate that nobody needs to ask.

// never holds.
const never = "1 == 0"

func allOf(predicates ...string) string {
	predicates = slices.DeleteFunc(slices.Clone(predicates), func(p string) bool { return p == "" })
	return strings.Join(predicates, " && ")
}

func anyOf(predicates ...string) string {
	predicates = slices.DeleteFunc(slices.Clone(predicates), func(p string) bool { return p == "" })
	return strings.Join(predicates, " || ")
}

func not(predicate string) string {
	if predicate == "" {
		return ""
	}
	return "!(" + predicate + ")"
}

// one puts a predicate between parentheses.
func one(predicate string) string {
	if predicate == "" {
		return ""
	}
	return "(" + predicate + ")"
}

// matches holds where the current item matches a pattern as it would with the operator ~: flag "s" lets a dot be any character.
func matches(pattern string) string {
	return fmt.Sprintf(`@ like_regex %s flag "s"`, literal(pattern))
}

// isOneOf holds where the current item is one of some strings.
func isOneOf(texts []string) string {
	predicates := make([]string, len(texts))
	for i, text := range texts {
		predicates[i] = "@ == " + literal(text)
	}
	return anyOf(predicates...)
}

// onlyOfType holds where all that is at a path, if anything is, is of a JSON type. It does not look into lists to find it.
func onlyOfType(path, jsonType string) string {
	return fmt.Sprintf(`!(%s.type() != "%s")`, path, jsonType)
}

// no holds where of nothing that is at a path a predicate about @ holds.
func no(path, predicate string) string {
	return fmt.Sprintf("!exists(%s ? (%s))", path, predicate)
}

// literal writes a string as paths have it, which is as JSON has it.
func literal(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // any string has a form in JSON
	}
	return strings.TrimSuffix(out.String(), "\n")
}
