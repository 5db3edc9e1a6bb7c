package schema

import "regexp/syntax"

// isRE2 tells whether a text is a regular expression that Envoy can compile. Go's parser is a twin of RE2's, but for groups of
// the same name, which RE2 refuses.
func isRE2(text string) bool {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return false
	}
	seen := map[string]bool{"": false}
	for _, name := range parsed.CapNames() {
		if seen[name] {
			return false
		}
		seen[name] = name != ""
	}
	_, err = syntax.Compile(parsed.Simplify())
	return err == nil
}
