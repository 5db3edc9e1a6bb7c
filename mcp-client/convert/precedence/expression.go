package precedence

import (
	"regexp"
	"sync"
)

// matchesWhole reports whether an expression is for a whole text.
func matchesWhole(expression, text string) bool {
	compiled := compile(expression)
	return compiled != nil && compiled.MatchString(text)
}

// compiled keeps expressions, since each of some hundred rules is compared with each other, many times.
var compiled = struct {
	sync.Mutex

	of map[string]*regexp.Regexp // nil is an expression with a mistake
}{of: map[string]*regexp.Regexp{}}

// maxCompiled bounds what is kept; one conversion has fewer.
const maxCompiled = 4 * maxItems

func compile(expression string) *regexp.Regexp {
	compiled.Lock()
	defer compiled.Unlock()
	if known, ok := compiled.of[expression]; ok {
		return known
	}
	if len(compiled.of) >= maxCompiled {
		clear(compiled.of)
	}
	made, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil {
		made = nil
	}
	compiled.of[expression] = made
	return made
}
