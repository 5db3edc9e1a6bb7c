package predicate

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/theory/sqljson/path/ast"
)

// pattern compiles a regular expression as Postgres reads it in a path: without the flag s, neither a
// dot nor a class such as [^a] matches the end of a line. In Go, such a class does.
func (c *compiler) pattern(n *ast.RegexNode) *regexp.Regexp {
	read := n.Regexp()
	parsed, err := syntax.Parse(read.String(), syntax.Perl&^syntax.ClassNL)
	if err == nil {
		read, err = regexp.Compile(parsed.String())
	}
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("read the regular expression of %s: %w", n, err)
	}
	return read
}
