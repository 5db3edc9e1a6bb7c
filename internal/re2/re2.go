// Package re2 tells whether Envoy takes a regular expression. Envoy refuses everything else in a response together with one that it cannot
// compile, so that nobody may be sent one that somebody else wrote.
package re2

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"
)

const (
	// longest is how long an expression may be, in bytes: what takes long to compile takes long in every Envoy.
	longest = 8 << 10
	// largest is how many instructions one may come to. Agents give their Envoys this limit, as Istio's do; Envoy's own default is 100.
	largest = 32768
	// lastByte is the last character that there is to Envoy, which reads bytes, and not characters of Unicode.
	lastByte = 0xFF
)

// remembered are expressions that were looked at: a mesh has few, in many resources that are looked at again and again.
var remembered struct {
	mu  sync.Mutex
	all map[string]error
}

// mostRemembered bounds the memory for them, of which one may have some KiB.
const mostRemembered = 1000

// Check is nil if Envoy takes the expression, and otherwise says why it does not.
func Check(expression string) error {
	r := &remembered
	r.mu.Lock()
	err, known := r.all[expression]
	r.mu.Unlock()
	if known {
		return err
	}
	err = check(expression)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= mostRemembered || r.all == nil {
		r.all = map[string]error{}
	}
	r.all[strings.Clone(expression)] = err
	return err
}

func check(expression string) error {
	if len(expression) > longest {
		return fmt.Errorf("is longer than %d bytes", longest)
	}
	parsed, err := syntax.Parse(inBytes(expression), syntax.Perl)
	if problem, ok := errors.AsType[*syntax.Error](err); ok {
		return fmt.Errorf("is none that Envoy can read: %s: %.80q", problem.Code, problem.Expr)
	} else if err != nil {
		return err
	}
	if wide := beyondBytes(expression); wide != "" {
		return fmt.Errorf("is none that Envoy can read: %s is no byte, which is what it compares", wide)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return fmt.Errorf("cannot be compiled: %w", err)
	}
	if n := size(program); n > largest {
		return fmt.Errorf("is too large: it comes to about %d instructions, and Envoy takes %d", n, largest)
	}
	return nil
}

// inBytes is a text with a character for each byte.
func inBytes(text string) string {
	out := make([]rune, len(text))
	for i := range len(text) {
		out[i] = rune(text[i])
	}
	return string(out)
}

// size is about what Envoy counts: an instruction for each range of bytes.
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
