package ads

import "strings"

// mostGuessed bounds how many names are taken from one refusal.
const mostGuessed = 100

// mostSearched bounds how much of a refusal is searched for names: each name in a response is looked for.
const mostSearched = 64 << 10

// divided divides the names in a refused response into groups that are to be tried one after the other: in halves, unless the reason names
// some of them. Then it is probably those, and each is tried alone, after all others have been sent together.
func divided(names []string, reason string) [][]string {
	var guessed, others []string
	reason = reason[:min(len(reason), mostSearched)]
	for _, name := range names {
		if len(guessed) <= mostGuessed && mentions(reason, name) {
			guessed = append(guessed, name)
		} else {
			others = append(others, name)
		}
	}
	if len(guessed) == 0 || len(guessed) > mostGuessed || len(others) == 0 {
		return [][]string{names[:len(names)/2], names[len(names)/2:]}
	}
	groups := make([][]string, 0, 1+len(guessed))
	groups = append(groups, others)
	for i := range guessed {
		groups = append(groups, guessed[i:i+1])
	}
	return groups
}

// mentions tells whether a text has a name in it, and not only as a part of a longer one.
func mentions(text, name string) bool {
	if name == "" {
		return false
	}
	for from := 0; ; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		at += from
		if (at == 0 || !ofName(text[at-1])) && endsName(text[at+len(name):]) {
			return true
		}
		from = at + 1
	}
}

// ofName tells whether a byte before a name makes it a part of a longer one.
func ofName(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("_-.|/~:%*", c) >= 0
}

// endsName tells whether a name ends where this text begins. A full stop or a colon may end a sentence, if more than a name follows it.
func endsName(after string) bool {
	switch {
	case after == "":
		return true
	case strings.IndexByte(".:", after[0]) >= 0:
		return len(after) == 1 || after[1] == ' ' || after[1] == '\n'
	}
	return !ofName(after[0])
}
