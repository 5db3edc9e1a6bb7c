package nginxconf

import (
	"errors"
	"strings"
)

// lexer divides a text into words and the signs ; { }.
type lexer struct {
	text string
	at   int
	line int // of the word that was read last
}

type token struct {
	text string
	word bool // a word, which may be empty if it is quoted
}

var errQuote = errors.New("a quotation does not end")

func (l *lexer) next() (token, error) {
	l.skip()
	if l.at == len(l.text) {
		return token{}, nil
	}
	switch c := l.text[l.at]; c {
	case ';', '{', '}':
		l.at++
		return token{text: string(c)}, nil
	case '"', '\'':
		return l.quoted(c)
	}
	return l.word(), nil
}

// skip passes over spaces and comments.
func (l *lexer) skip() {
	for ; l.at < len(l.text); l.at++ {
		switch l.text[l.at] {
		case '\n':
			l.line++
		case ' ', '\t', '\r':
		case '#':
			for l.at+1 < len(l.text) && l.text[l.at+1] != '\n' {
				l.at++
			}
		default:
			return
		}
	}
}

// quoted reads a quoted word. A backslash before the quotation mark, or before a backslash, is none.
func (l *lexer) quoted(mark byte) (token, error) {
	var b strings.Builder
	for l.at++; l.at < len(l.text); l.at++ {
		c := l.text[l.at]
		switch {
		case c == mark:
			l.at++
			return token{b.String(), true}, nil
		case c == '\\' && l.at+1 < len(l.text) && (l.text[l.at+1] == mark || l.text[l.at+1] == '\\'):
			l.at++
			c = l.text[l.at]
		case c == '\n':
			l.line++
		}
		b.WriteByte(c)
	}
	return token{}, errQuote
}

// word reads a word up to a space or a sign. The braces of ${name} and \{ belong to it.
func (l *lexer) word() token {
	begin := l.at
	for ; l.at < len(l.text); l.at++ {
		switch c := l.text[l.at]; {
		case c == '\\' && l.at+1 < len(l.text):
			if l.at++; l.text[l.at] == '\n' {
				l.line++
			}
		case c == '$' && strings.HasPrefix(l.text[l.at:], "${"):
			end := strings.IndexAny(l.text[l.at:], "}\n;")
			if end > 0 && l.text[l.at+end] == '}' {
				l.at += end
			}
		case strings.IndexByte(" \t\r\n;{}", c) >= 0:
			return token{l.text[begin:l.at], true}
		}
	}
	return token{l.text[begin:], true}
}

// skipBlock passes over a block in another language, by its braces.
func (l *lexer) skipBlock() error {
	for depth := 1; l.at < len(l.text); l.at++ {
		switch l.text[l.at] {
		case '\n':
			l.line++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				l.at++
				return nil
			}
		}
	}
	return errOpen
}
