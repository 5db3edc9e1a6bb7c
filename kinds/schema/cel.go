package schema

import "regexp"

// replacement is one step in parsing an expression. The database takes the same steps.
type replacement struct {
	pattern *regexp.Regexp
	by      string
}

func replace(pattern, by string) replacement { return replacement{regexp.MustCompile(pattern), by} }

// celTokens reduce an expression to its form: x is a value, o an operator between two.
var celTokens = []replacement{
	replace(`"""("?"?[^"])*"""|'''('?'?[^'])*'''|[rR]("[^"]*"|'[^']*')|"(\\[^\n]|[^"\\\n])*"|'(\\[^\n]|[^'\\\n])*'`, `x`),
	replace(`//[^\n]*`, ``),
	replace(`(^|[^A-Za-z0-9_.])in($|[^A-Za-z0-9_])`, `${1}<${2}`),
	replace(`[A-Za-z0-9_]+`, `x`),
	replace(`\s+`, ``),
	replace(`==|!=|<=|>=|&&|\|\||[+*/%<>]`, `o`),
}

// celValues are the forms that make one value of several.
var celValues = []replacement{
	replace(`x\((x(,x)*)?\)`, `x`),                 // a call
	replace(`x\[x\]`, `x`),                         // an item
	replace(`x?\{(x:x(,x:x)*,?)?\}`, `x`),          // a map, a message
	replace(`x\.x`, `x`),                           // a member
	replace(`(^|[^])x}])\.x`, `${1}x`),             // a name from the root on
	replace(`(^|[^])x}])\(x\)`, `${1}x`),           // parentheses
	replace(`(^|[^])x}])\[(x(,x)*,?)?\]`, `${1}x`), // a list
	replace(`(^|[^])x}])[-!]+x`, `${1}x`),          // not, minus
	replace(`x(o|-)x`, `x`),                        // two values
	replace(`x\?x:x`, `x`),                         // if, else
}

// isCEL reports whether a string has the form of a CEL expression. It does not check what the names
// mean.
func isCEL(s string) bool {
	for _, step := range celTokens {
		s = step.pattern.ReplaceAllString(s, step.by)
	}
	for before := ""; s != before; {
		before = s
		for _, step := range celValues {
			s = step.pattern.ReplaceAllString(s, step.by)
		}
	}
	return s == "x"
}
