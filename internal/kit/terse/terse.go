// Package terse bounds what peers can make a program log and keep: the length of each text, and how
// often similar lines are logged.
//
// Lines and pages quote clients, servers and Envoys, which may send forty megabytes, a thousand
// times a second.
package terse

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text returns at most `most` bytes of a text, cut between runes, and says how many bytes are
// missing.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := max(most, 0)
	for back := 0; back < utf8.UTFMax-1 && end > 0 && !utf8.RuneStart(text[end]); back++ {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:end], len(text)-end)
}

// Kept is [Text] for texts that are kept for long: the result shares no memory with what it was cut
// from, such as a request.
func Kept(text string, most int) string {
	if len(text) > most {
		return Text(text, most)
	}
	return strings.Clone(text)
}
