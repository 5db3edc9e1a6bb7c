package schema

import "regexp"

// replacement is a step in the reading of an expression. The database takes the same steps.
type replacement struct {
	pattern *regexp.Regexp
	by      string
}

func replace(pattern, by string) replacement { return replacement{regexp.MustCompile(pattern), by} }

// celTokens leave of an expression its form alone: x is a value, o an operator between two.
var celTokens = []replacement{
	replace(`"""("?"?[^"])*"""|'''('?'?[^'])*'''|[rR]("[^"]*"|'[^']*')|"(\\[^\n]|[^"\\\n])*"|'(\\[^\n]|[^'\\\n])*'`, `x`),
	replace(`//[^\n]*`, ``),
	replace(`(^|[^A-Za-z0-9_.])in($|[^A-Za-z0-9_])`, `${1}<${2}`),
	replace(`[A-Za-z0-9_]+`, `x`),
	replace(`\s+`, ``),
	replace(`==|!=|<=|>=|&&|\|\||[+*/%<>]`, `o`),
}

// celValues are the forms of values; each makes one of its parts.
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

// isCEL says whether a string has the form of an expression in CEL. Whether its names mean something is not told.
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
