package terminal

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Writer makes visible what passes, but for breaks of lines and tabs. Several goroutines may write.
type Writer struct {
	out    io.Writer
	styles func() bool

	mu   sync.Mutex
	rest string // the beginning of a character
}

// NewWriter returns one. What was painted has its style if styles says so, which may be nil.
func NewWriter(out io.Writer, styles func() bool) *Writer { return &Writer{out: out, styles: styles} }

// Write writes all of it, but for the beginning of a character at its end, which waits for the rest.
func (w *Writer) Write(content []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.rest + string(content)
	whole := len(text) - unfinished(text)
	w.rest = text[whole:]
	if _, err := io.WriteString(w.out, w.visible(text[:whole])); err != nil {
		return 0, err //nolint:wrapcheck // it is the writer's, whose place this takes
	}
	return len(content), nil
}

func (w *Writer) visible(text string) string {
	if !strings.ContainsFunc(text, isSpecial) {
		return text
	}
	var b strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch c := text[:size]; {
		case r == '\n' || r == '\t':
			b.WriteString(c)
		case r == utf8.RuneError && size == 1 && isMark(c[0]):
			if w.styles != nil && w.styles() {
				b.WriteString(sequence(c[0]))
			}
		default:
			writeVisible(&b, r, c)
		}
		text = text[size:]
	}
	return b.String()
}

// isSpecial tells whether a character takes another look.
func isSpecial(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' }

// unfinished is how many bytes of a character stand at the end of a text that may go on.
func unfinished(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRuneInString(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
