package re2

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	// token matches an escape, or a \Q…\E quotation, which contains no escapes.
	token = regexp.MustCompile(`\\Q(?s:.*?)(?:\\E|$)|\\x\{([0-9A-Fa-f]+)\}|\\[pP]\{\^?([^}]*)\}|\\[pP](\w)|(?s:\\.)`)
	// goOnly matches the Unicode classes that Go knows and Envoy does not.
	goOnly = regexp.MustCompile(`^(?:LC|Cn|ASCII|Assigned|[a-z].*|.*[ -].*)$`)
	// categories matches the long names of general categories, which only Go knows. Envoy knows the
	// short names (Lu) and scripts (Han).
	categories = regexp.MustCompile(`^(?:Letter|Cased_?Letter|Uppercase_?Letter|Lowercase_?Letter|Titlecase_?Letter|Modifier_?Letter|Other_?Letter|` +
		`(?:Combining_)?Mark|Nonspacing_?Mark|Spacing_?Mark|Enclosing_?Mark|Number|Decimal_?Number|Letter_?Number|Other_?Number|digit|punct|Punctuation|` +
		`Connector_?Punctuation|Dash_?Punctuation|Open_?Punctuation|Close_?Punctuation|Initial_?Punctuation|Final_?Punctuation|Other_?Punctuation|` +
		`Symbol|Math_?Symbol|Currency_?Symbol|Modifier_?Symbol|Other_?Symbol|Separator|Space_?Separator|Line_?Separator|Paragraph_?Separator|` +
		`Other|Control|Format|Surrogate|Private_?Use|Unassigned)$`)
)

// firstUnsupportedEscape returns the first escape that Go accepts and Envoy does not, or "".
func firstUnsupportedEscape(expression string) string {
	if !strings.Contains(expression, `\`) {
		return ""
	}
	for _, found := range token.FindAllStringSubmatch(expression, -1) {
		code, class := found[1], found[2]
		if n, err := strconv.ParseUint(code, 16, 32); code != "" && (err != nil || n > lastByte) {
			return found[0]
		}
		if class != "" && (goOnly.MatchString(class) || categories.MatchString(class)) {
			return found[0]
		}
	}
	return ""
}
