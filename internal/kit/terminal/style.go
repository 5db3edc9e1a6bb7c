package terminal

import "unicode/utf8"

// Style is a text attribute that the programs use.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint wraps text in a style. It marks the style with bytes that never occur in UTF-8, so that no
// user text can contain them; a Writer turns them into escape sequences.
func (s Style) Paint(text string) string {
	for b, style := range styleBytes {
		if style == s && text != "" {
			return string([]byte{b}) + text + string([]byte{plain})
		}
	}
	return text
}

// plain is the byte that ends a style. Neither it nor the bytes below occur in UTF-8.
const plain = 0xf8

var styleBytes = map[byte]Style{0xf9: Bold, 0xfa: Red, 0xfb: Green, 0xfc: Yellow, 0xfd: Cyan}

// Width is how many characters of a text are seen. The marks of styles are not.
func Width(text string) int {
	width := utf8.RuneCountInString(text)
	for i := range len(text) {
		if isStyleByte(text[i]) {
			width--
		}
	}
	return width
}

func isStyleByte(c byte) bool { return plain <= c && c <= 0xfd }

// sequence returns the terminal's escape sequence for a style byte.
func sequence(b byte) string {
	if b == plain {
		return "\x1b[0m"
	}
	return "\x1b[" + string(styleBytes[b]) + "m"
}
