package terminal

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Writer escapes what is written to it, except line breaks and tabs. It is safe for concurrent use.
type Writer struct {
	out    io.Writer
	styles func() bool

	mu   sync.Mutex
	rest string // an incomplete character at the end of the last write
}

// NewWriter returns a Writer to out. It shows styles while styles returns true; a nil styles means
// never.
func NewWriter(out io.Writer, styles func() bool) *Writer { return &Writer{out: out, styles: styles} }

// Write writes content, but keeps an incomplete character at its end for the next call.
func (w *Writer) Write(content []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.rest + string(content)
	whole := len(text) - unfinished(text)
	w.rest = text[whole:]
	if _, err := io.WriteString(w.out, w.visible(text[:whole])); err != nil {
		return 0, err //nolint:wrapcheck // a wrapper returns the errors of what it wraps
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
		case r == utf8.RuneError && size == 1 && isStyleByte(c[0]):
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

// isSpecial reports whether a character may need escaping.
func isSpecial(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' }

// unfinished returns how many bytes of an incomplete character are at the end of text.
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
