// Package haproxycfg reads the configuration language of HAProxy: sections of lines of words.
package haproxycfg

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Section is a section, such as a frontend.
type Section struct {
	Kind string
	Args []string
	From []Line // what it says

	File string
	Line int
}

// Name is that of the section; "" if it has none.
func (s *Section) Name() string {
	if len(s.Args) == 0 {
		return ""
	}
	return s.Args[0]
}

// Line is a line of a section.
type Line struct {
	Words []string

	File string
	Line int
}

// Word is a word of the line; "" if it has fewer.
func (l Line) Word(n int) string {
	if n < len(l.Words) {
		return l.Words[n]
	}
	return ""
}

// kinds are those of sections.
var kinds = []string{
	"global", "defaults", "frontend", "backend", "listen", "userlist", "resolvers", "peers", "mailers", "program", "cache", "http-errors", "ring", "fcgi-app",
	"log-forward", "log-profile", "crt-store", "traces", "acme",
}

// maxBytes bounds a file. It is far above what people write.
const maxBytes = 8 << 20

var (
	errLarge   = fmt.Errorf("there is more than %d MB", maxBytes>>20)
	errQuote   = errors.New("a quotation does not end")
	errOutside = errors.New("a line is in no section: begin with one, such as defaults or frontend")
)

// Read reads a file.
func Read(file string, data []byte) (out []*Section, err error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("%s: %w", file, errLarge)
	}
	number := 0
	for text := range strings.Lines(string(data)) {
		number++
		words, err := split(strings.TrimRight(text, "\r\n"))
		switch {
		case err != nil:
		case len(words) == 0:
			continue
		case slices.Contains(kinds, words[0]):
			out = append(out, &Section{Kind: words[0], Args: words[1:], File: file, Line: number})
			continue
		case len(out) == 0:
			err = errOutside
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, number, err)
		}
		last := out[len(out)-1]
		last.From = append(last.From, Line{words, file, number})
	}
	return out, nil
}

// split divides a line into words. Quoted parts belong to the word that they are in.
func split(text string) (words []string, err error) {
	var b strings.Builder
	begun, mark := false, byte(0)
	end := func() {
		if begun {
			words = append(words, b.String())
			b.Reset()
			begun = false
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case mark != 0 && c == mark:
			mark = 0
		case c == '\\' && mark != '\'' && i+1 < len(text):
			i++
			b.WriteString(escaped(text[i], mark))
			begun = true
		case mark != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			mark, begun = c, true
		case c == ' ' || c == '\t':
			end()
		case c == '#':
			end()
			return words, nil
		default:
			b.WriteByte(c)
			begun = true
		}
	}
	if mark != 0 {
		return nil, errQuote
	}
	end()
	return words, nil
}

// escaped is what a backslash and a character stand for. In double quotes it is for a few alone.
func escaped(c, mark byte) string {
	if mark == '"' && !strings.ContainsRune(`\"$#`, rune(c)) || mark == 0 && !strings.ContainsRune(`\ "'#`, rune(c)) {
		return `\` + string(c)
	}
	return string(c)
}
