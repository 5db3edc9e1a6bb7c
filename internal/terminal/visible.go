// Package terminal shows what others wrote: names, labels, messages, reasons, errors of other programs. A terminal obeys some characters: escapes
// change its title, its colours and what stands on it already, and marks of direction show letters in another order than they have. Whoever may
// write a text that somebody prints could forge what is read. Here such characters are made visible, as \u and four digits: in JSON, that
// is the same text.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line is a text for one line, or one cell of a table: breaks of lines and tabs are visible, too, so that none forges a row.
func Line(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch c := rest[:size]; {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && size == 1 && isMark(c[0]):
			b.WriteString(c) // of a style, which a Writer knows
		default:
			writeVisible(&b, r, c)
		}
		rest = rest[size:]
	}
	return b.String()
}

// Text is a text of any number of lines.
func Text(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j := range cells {
			cells[j] = Line(cells[j])
		}
		lines[i] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

// isPlain spares most texts the rest.
func isPlain(text string) bool {
	for i := range len(text) {
		if !isPlainByte(text[i]) {
			return false
		}
	}
	return true
}

func isPlainByte(c byte) bool { return ' ' <= c && c <= '~' }

// writeVisible writes one character, given as itself and as it was read.
func writeVisible(b *strings.Builder, r rune, read string) {
	switch {
	case r == utf8.RuneError && len(read) == 1:
		fmt.Fprintf(b, `\x%02x`, read[0])
	case unicode.IsGraphic(r):
		b.WriteString(read)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
}
