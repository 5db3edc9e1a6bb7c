package kindtables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Building blocks for predicates in the SQL/JSON path language. "" is a predicate that always holds
// and need not be tested.

// alwaysFalse never holds.
const alwaysFalse = "1 == 0"

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

// parenthesised puts a predicate in parentheses.
func parenthesised(predicate string) string {
	if predicate == "" {
		return ""
	}
	return "(" + predicate + ")"
}

// matches holds if the current item matches a pattern as with the operator ~: flag "s" lets a dot
// match any character.
func matches(pattern string) string {
	return fmt.Sprintf(`@ like_regex %s flag "s"`, literal(pattern))
}

// isOneOf holds if the current item is one of some strings.
func isOneOf(texts []string) string {
	predicates := make([]string, len(texts))
	for i, text := range texts {
		predicates[i] = "@ == " + literal(text)
	}
	return anyOf(predicates...)
}

// onlyOfType holds if everything at a path, if anything, is of a JSON type. It does not look into
// lists.
func onlyOfType(path, jsonType string) string {
	return fmt.Sprintf(`!(%s.type() != "%s")`, path, jsonType)
}

// noneMatches holds if the predicate about @ holds for nothing at the path.
func noneMatches(path, predicate string) string {
	return fmt.Sprintf("!exists(%s ? (%s))", path, predicate)
}

// literal writes a string literal of the path language, which has JSON's form.
func literal(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // any string has a form in JSON
	}
	return strings.TrimSuffix(out.String(), "\n")
}
