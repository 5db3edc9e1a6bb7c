package files

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Others says of which files of the folders nothing was read, since they end otherwise; "" if there are none. Those that were read
// in another way do not count.
func (s *Sources) Others(read map[string]bool) string {
	left := slices.DeleteFunc(slices.Clone(s.others), func(file string) bool { return read[file] })
	if len(left) == 0 {
		return ""
	}
	return fmt.Sprintf("%s not read, since the ending is none of %s: %s", words.Counted(len(left), "file is", "files are"), strings.Join(s.endings(), ", "), firstOf(left))
}

// firstOf names the first of some files.
func firstOf(files []string) string {
	named := strings.Join(files[:min(len(files), mostNamed)], ", ")
	if len(files) > mostNamed {
		named += ", …"
	}
	return named
}
