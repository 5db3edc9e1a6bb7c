package files

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// leftOut is what was left out of the files of folders, where other programs have files, too. A file
// that somebody names is meant: what is no resource in it is a mistake.
type leftOut struct {
	foreign   Skipped
	documents int      // without apiVersion and kind
	files     []string // that have them
}

// of returns the parser of a file.
func (l *leftOut) of(s *Sources, file string, parser kinds.Parser) kinds.Parser {
	if !s.found[file] {
		return parser
	}
	parser.Nameless = func() { l.nameless(file) }
	if parser.Foreign == nil {
		if l.foreign == nil {
			l.foreign = Skipped{}
		}
		parser.Foreign = l.foreign.add
	}
	return parser
}

func (l *leftOut) nameless(file string) {
	if l.documents++; !slices.Contains(l.files, file) {
		l.files = append(l.files, file)
	}
}

// mostNamed is how many files are named.
const mostNamed = 5

// tell tells what was left out, if anything was.
func (s *Sources) tell(l leftOut) {
	if s == nil || s.Tell == nil {
		return
	}
	if text := l.foreign.InWords(); text != "" {
		s.Tell(strings.TrimPrefix(text, "; "))
	}
	if l.documents == 0 {
		return
	}
	s.Tell(fmt.Sprintf("left out: %s without apiVersion and kind: %s", words.Counted(l.documents, "document", "documents"), firstOf(l.files)))
}
