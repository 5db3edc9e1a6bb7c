package quarantine

import "strings"

// maxGuessed bounds how many names are taken from one refusal.
const maxGuessed = 100

// maxSearched bounds how much of a refusal is searched, because each name in a response is searched
// for.
const maxSearched = 64 << 10

// split divides the names in a refused response into lists, each to be sent in a response of its
// own: in halves, unless the reason mentions some of the names. Those are probably the cause, so
// each is tried alone after all others together. Of one name there is one list: it was not alone
// when it was refused.
func split(names []string, reason string) [][]string {
	if len(names) == 1 {
		return [][]string{names}
	}
	var guessed, others []string
	reason = reason[:min(len(reason), maxSearched)]
	for _, name := range names {
		if len(guessed) <= maxGuessed && mentions(reason, name) {
			guessed = append(guessed, name)
		} else {
			others = append(others, name)
		}
	}
	if len(guessed) == 0 || len(guessed) > maxGuessed || len(others) == 0 {
		return [][]string{names[:len(names)/2], names[len(names)/2:]}
	}
	groups := make([][]string, 0, 1+len(guessed))
	groups = append(groups, others)
	for i := range guessed {
		groups = append(groups, guessed[i:i+1])
	}
	return groups
}

// mentions reports whether a text contains a name, not just as part of a longer name.
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

// ofName reports whether a byte next to a name makes it part of a longer one.
func ofName(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("_-.|/~:%*", c) >= 0
}

// endsName reports whether a name ends where this text begins. A full stop or colon ends a sentence
// unless the name continues after it.
func endsName(after string) bool {
	switch {
	case after == "":
		return true
	case strings.IndexByte(".:", after[0]) >= 0:
		return len(after) == 1 || after[1] == ' ' || after[1] == '\n'
	}
	return !ofName(after[0])
}
