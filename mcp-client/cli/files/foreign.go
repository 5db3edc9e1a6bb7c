package files

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// readers are the values of --from for files of others, by their endings.
var readers = map[string]string{".hcl": "consul", ".conf": "nginx", ".cfg": "haproxy"}

// importOf says how to import a file or a folder of others, "" if that is not known from the ending of a file.
func importOf(file, path string) string {
	from := readers[strings.ToLower(filepath.Ext(file))]
	if from == "" {
		return ""
	}
	return fmt.Sprintf("mcp-client import --from %s %s", from, path)
}

// ofOthers is the mistake of a file without resources whose ending says of whom it is, in place of those of its syntax; nil if it is
// not such a file.
func ofOthers(file string, wrong kinds.Errors) kinds.Errors {
	command := importOf(file, file)
	resource := func(v kinds.Violation) bool { return v.Kind != "" }
	if command == "" || len(wrong) == 0 || slices.ContainsFunc(wrong, resource) {
		return nil
	}
	return kinds.Errors{{File: file, Reason: "it has no resources in YAML or JSON", Hint: command + " converts what it has"}}
}

// nothingIn is the error of a folder that has nothing to read, and says what to do about it.
func (s *Sources) nothingIn(path string) error {
	text := fmt.Sprintf("%s: there is no file in it that ends in %s", path, strings.Join(s.endings(), ", "))
	for _, file := range s.others {
		if command := importOf(file, path); command != "" && s.Endings == nil {
			return fmt.Errorf("%s (%s reads what is in %s)", text, command, filepath.Base(file))
		}
	}
	if s.Recursive {
		return errors.New(text)
	}
	below := Sources{Recursive: true, Endings: s.Endings}
	found, err := below.filesAt(path)
	if err != nil { // there is nothing below, either
		return errors.New(text)
	}
	return fmt.Errorf("%s, but in the folders below: -R reads %s, too", text, firstOf(found))
}
