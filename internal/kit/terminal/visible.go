// Package terminal makes untrusted text safe to print: names, labels, messages, reasons, errors of
// other programs. Terminals obey escape sequences, which can change the title, the colours and what
// is already on the screen, and bidirectional controls, which reorder letters; an attacker could
// use them to forge what a user reads. This package writes such characters as \u and four digits,
// which in JSON means the same text.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line escapes a text for one line or one table cell. It also escapes line breaks and tabs, so that
// no text can forge a row.
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
		case r == utf8.RuneError && size == 1 && isStyleByte(c[0]):
			b.WriteString(c) // a style byte, which the Writer handles
		default:
			writeVisible(&b, r, c)
		}
		rest = rest[size:]
	}
	return b.String()
}

// Text escapes a text but keeps its line breaks and tabs.
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

// isPlain reports whether a text needs no escaping, which most do not.
func isPlain(text string) bool {
	for i := range len(text) {
		if !isPlainByte(text[i]) {
			return false
		}
	}
	return true
}

func isPlainByte(c byte) bool { return ' ' <= c && c <= '~' }

// writeVisible writes one character, escaped if necessary. read has the character's bytes.
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
