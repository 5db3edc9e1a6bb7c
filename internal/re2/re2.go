// Package re2 reports whether Envoy accepts a regular expression. One bad expression makes Envoy
// refuse the whole response with it, so one user's mistake must not reach the proxies of others.
package re2

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"
)

const (
	// maxLength is the limit of an expression's length in bytes: what takes long to compile takes
	// long in every Envoy.
	maxLength = 8 << 10
	// maxInstructions is the limit of the compiled size. Agents set this limit in their Envoys, as
	// Istio's agents do; Envoy's own default is 100.
	maxInstructions = 32768
	// lastByte is the highest character for Envoy, which matches bytes and not Unicode characters.
	lastByte = 0xFF
)

// cache has the results of Check, because a mesh checks the same few expressions in many resources
// again and again.
var cache struct {
	mu  sync.Mutex
	all map[string]error
}

// maxCached bounds the cache's memory; an entry may have some KiB. A full cache is emptied.
const maxCached = 1000

// Check returns nil if Envoy accepts the expression, otherwise the reason why not.
func Check(expression string) error {
	r := &cache
	r.mu.Lock()
	err, known := r.all[expression]
	r.mu.Unlock()
	if known {
		return err
	}
	err = check(expression)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxCached || r.all == nil {
		r.all = map[string]error{}
	}
	r.all[strings.Clone(expression)] = err
	return err
}

func check(expression string) error {
	if len(expression) > maxLength {
		return fmt.Errorf("is longer than %d bytes", maxLength)
	}
	parsed, err := syntax.Parse(inBytes(expression), syntax.Perl)
	if problem, ok := errors.AsType[*syntax.Error](err); ok {
		return fmt.Errorf("is none that Envoy can read: %s: %.80q", problem.Code, problem.Expr)
	} else if err != nil {
		return err
	}
	if wide := firstUnsupportedEscape(expression); wide != "" {
		return fmt.Errorf("is none that Envoy can read: %s is no byte, which is what it compares", wide)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return fmt.Errorf("cannot be compiled: %w", err)
	}
	if n := size(program); n > maxInstructions {
		return fmt.Errorf("is too large: it comes to about %d instructions, and Envoy takes %d", n, maxInstructions)
	}
	return nil
}

// inBytes returns a text with one character for each byte.
func inBytes(text string) string {
	out := make([]rune, len(text))
	for i := range len(text) {
		out[i] = rune(text[i])
	}
	return string(out)
}

// size estimates the compiled size as Envoy counts it, with one instruction for each range of
// bytes.
func size(p *syntax.Prog) (n int) {
	for i := range p.Inst {
		n++
		if in := &p.Inst[i]; in.Op == syntax.InstRune {
			for pair := 2; pair+1 < len(in.Rune) && in.Rune[pair] <= lastByte; pair += 2 {
				n++
			}
		}
	}
	return n
}
