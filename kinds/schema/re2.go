package schema

import "regexp/syntax"

// isRE2 tells whether a text is a regular expression that Envoy can compile. Go's parser is RE2's twin.
func isRE2(text string) bool {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return false
	}
	_, err = syntax.Compile(parsed.Simplify())
	return err == nil
}
