package schema

import "regexp/syntax"

// isRE2 reports whether Envoy can compile a regular expression. Go's parser accepts the same syntax
// as RE2, except that RE2 refuses two groups of one name.
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
