package terminal

// Style is an attribute of text, of those that the programs use.
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

// Paint gives what others wrote a style. A Writer that shows styles knows it by marks that are in no text of UTF-8, so that nobody can write them.
func (s Style) Paint(text string) string {
	for mark, style := range marks {
		if style == s && text != "" {
			return string([]byte{mark}) + text + string([]byte{plain})
		}
	}
	return text
}

// plain ends a style.
const plain = 0xf8

var marks = map[byte]Style{0xf9: Bold, 0xfa: Red, 0xfb: Green, 0xfc: Yellow, 0xfd: Cyan}

func isMark(c byte) bool { return plain <= c && c <= 0xfd }

// sequence is what a mark is on a terminal.
func sequence(mark byte) string {
	if mark == plain {
		return "\x1b[0m"
	}
	return "\x1b[" + string(marks[mark]) + "m"
}
