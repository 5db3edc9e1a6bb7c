package caller

import (
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Pattern matches identities. It is a SPIFFE id in which a path segment * matches one segment, or
// all that follow if it is the last; or "anonymous"; or "*" for every identity.
type Pattern struct {
	text     string
	segments []string
}

// ParsePattern parses a pattern.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{text: text, segments: strings.Split(text, "/")}
	if text == "*" || text == Anonymous {
		return p, nil
	}
	// Validate the rest with any other word in place of *.
	plain := make([]string, len(p.segments))
	for i, s := range p.segments {
		if plain[i] = s; s == "*" && i > 2 {
			plain[i] = "any"
		}
	}
	if _, err := spiffeid.FromString(strings.Join(plain, "/")); err != nil {
		return Pattern{}, fmt.Errorf("%q is not a pattern of identities: %w; write spiffe://trust.domain/a/path, "+
			"where a segment may be *, the last of which stands for all that follow; or %s, or *", text, err, Anonymous)
	}
	return p, nil
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Matches reports whether the pattern matches an identity.
func (p Pattern) Matches(identity string) bool {
	if p.text == "*" {
		return identity != ""
	}
	segments := strings.Split(identity, "/")
	for i, want := range p.segments {
		switch {
		case i >= len(segments):
			return false
		case want == "*" && i == len(p.segments)-1:
			return true
		case want != "*" && want != segments[i]:
			return false
		}
	}
	return len(segments) == len(p.segments)
}
