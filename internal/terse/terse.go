// Package terse bounds what others can make a program log and keep: how long each text is, and how often lines are alike.
//
// What a client, a server or an Envoy says goes into lines of the log, and into what is shown of it. It may say forty megabytes, and
// that a thousand times a second.
package terse

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text is a text of at most so many bytes, and how many are missing. It is whole runes, and holds nothing of a longer text.
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

// Kept is [Text] of what is kept for long: it holds nothing of what it was cut out of, such as a request.
func Kept(text string, most int) string {
	if len(text) > most {
		return Text(text, most)
	}
	return strings.Clone(text)
}
