// Package words says how people read kinds, resources, times and numbers.
package words

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// Escaped escapes control characters in text from elsewhere, so that it cannot control the
// terminal.
func Escaped(text string) string {
	q := strconv.Quote(text)
	return q[1 : len(q)-1]
}

// OrDash returns the text, or what stands for none.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// FirstLine returns the first line of a text, made safe for the terminal.
func FirstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return terminal.Line(strings.ReplaceAll(first, "\t", " "))
}

// MadeBy says who did something, and with which application.
func MadeBy(author, application string) string {
	return terminal.Line(strings.TrimSpace(OrDash(author) + " " + bracketed(application)))
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

// Revision formats a revision. Servers of others have none.
func Revision(revision int64) string {
	if revision == 0 {
		return "-"
	}
	return fmt.Sprint(revision)
}

// Counted formats a number with its noun.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
