// Package files reads resources from files, folders and standard input.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
)

// Sources are the files with a command's resources.
type Sources struct {
	Paths     []string
	Recursive bool

	kustomization string // a folder that is built before there are resources

	// Tell is told in a line what was left out of folders. If nil, nobody is.
	Tell func(line string)

	found map[string]bool // the files that no path names, but its folder

	// Only is the namespace that all resources have to be in that have one; "" allows all.
	Only string

	// Endings are those of the files to read from folders, in place of those of YAML and JSON.
	Endings []string

	repeat bool     // a resource may be in several files
	others []string // what folders have that has no such ending
}

// DeclareFlags declares --filename and --recursive.
func (s *Sources) DeclareFlags(cmd *cobra.Command, verb string) {
	cmd.Flags().StringArrayVarP(&s.Paths, "filename", "f", nil, "a file, folder or URL with what to "+verb+", or - for standard input; may be given more than once")
	cmd.Flags().BoolVarP(&s.Recursive, "recursive", "R", false, "look for files in the folders of folders too")
	s.Tell = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
}

// DeclareAsKubectl declares --filename and --recursive of a command whose arguments are files, and which reads the folders of folders
// anyway.
func (s *Sources) DeclareAsKubectl(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&s.Paths, "filename", "f", nil, "a PATH, for those who are used to -f; may be given more than once")
	cmd.Flags().BoolP("recursive", "R", true, "look for files in the folders of folders too, which is done anyway")
	_ = cmd.Flags().MarkHidden("recursive") // which exists
}

// TellOn has Tell write what it is told.
func (s *Sources) TellOn(to io.Writer) {
	s.Tell = func(line string) { fmt.Fprintln(to, line) }
}

// Given reports whether there is something to read.
func (s *Sources) Given() bool { return len(s.Paths) > 0 || s.kustomization != "" }

// Check fails if there is nothing to read.
func (s *Sources) Check(verb string) error {
	if !s.Given() {
		return errors.New("name what to " + verb + " with -f")
	}
	return nil
}

// suffixes of the files to read from folders. Files named directly may have any name.
var suffixes = []string{".yaml", ".yml", ".json"}

// Files lists the files, each once. Those of folders whose names begin with a dot are of other programs.
func (s *Sources) Files() ([]string, error) {
	s.others = nil
	var files []string
	for _, path := range s.Paths {
		found, err := s.filesAt(path)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
		s.note(path, found)
	}
	if s.kustomization != "" {
		files = append(files, kustomized+s.kustomization)
	}
	return files, nil
}

// note keeps which files were found in a folder.
func (s *Sources) note(path string, found []string) {
	if s.found == nil {
		s.found = map[string]bool{}
	}
	for _, f := range found {
		by, known := s.found[f]
		s.found[f] = f != filepath.Clean(path) && !isURL(path) && (by || !known)
	}
}

func (s *Sources) filesAt(path string) ([]string, error) {
	if path == Stdin || isURL(path) {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{filepath.Clean(path)}, nil
	}
	var found []string
	endings := s.endings()
	err = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case at == path:
		case entry.IsDir() && (hidden(entry) || !s.Recursive):
			return fs.SkipDir
		case hidden(entry):
		case entry.IsDir():
		case slices.Contains(endings, strings.ToLower(filepath.Ext(at))):
			found = append(found, filepath.Clean(at))
		default:
			s.others = append(s.others, filepath.Clean(at))
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = s.nothingIn(path)
	}
	return found, err
}

func (s *Sources) endings() []string {
	if s.Endings == nil {
		return suffixes
	}
	return s.Endings
}

// OfFolders says what is read of folders.
const OfFolders = `Of folders, names that begin with a dot are left out, and documents that have neither apiVersion
nor kind, which are counted.`

func hidden(entry fs.DirEntry) bool { return strings.HasPrefix(entry.Name(), ".") }

// Stdin is the name of standard input.
const Stdin = "-"

// Read parses all files. All violations are returned as one failure.Refused.
func (s *Sources) Read(in io.Reader, defaultNamespace string) ([]*kinds.Document, error) {
	return s.readAs(kinds.Parser{DefaultNamespace: defaultNamespace, Examine: envoy.Examine}, in)
}

// ReadWithSecrets is Read, but allows secrets.
func (s *Sources) ReadWithSecrets(in io.Reader, defaultNamespace string) ([]*kinds.Document, error) {
	return s.readAs(kinds.Parser{DefaultNamespace: defaultNamespace, Secrets: true, Examine: envoy.Examine}, in)
}

// Names reads which resources are in the files, each once, secrets too.
func (s *Sources) Names(in io.Reader, defaultNamespace string) ([]kinds.Key, error) {
	with := *s
	with.repeat = true
	documents, err := with.ReadWithSecrets(in, defaultNamespace)
	var keys []kinds.Key
	for _, d := range documents {
		keys = append(keys, d.Resource.Key())
	}
	return arguments.Distinct(keys), err
}

func (s *Sources) readAs(parser kinds.Parser, in io.Reader) ([]*kinds.Document, error) {
	files, err := s.Files()
	if err != nil {
		return nil, err
	}
	var documents []*kinds.Document
	var violations kinds.Errors
	seen := map[kinds.Key]*kinds.Document{}
	var left leftOut
	for _, file := range files {
		found, err := parseFile(file, in, left.of(s, file, parser))
		var wrong kinds.Errors
		if err != nil && !errors.As(err, &wrong) {
			return nil, err
		}
		if others := ofOthers(file, wrong); others != nil {
			wrong = others
		}
		documents, violations = append(documents, found...), append(violations, wrong...)
		for _, d := range found {
			violations = append(violations, s.elsewhere(d)...)
			if first, twice := seen[d.Resource.Key()]; twice && !s.repeat {
				violations = append(violations, duplicate(first, d))
				continue
			}
			seen[d.Resource.Key()] = d
		}
	}
	if len(violations) > 0 {
		return nil, &failure.Refused{Violations: violations}
	}
	s.tell(left)
	if len(documents) == 0 {
		return nil, fmt.Errorf("there is no resource in %s", strings.Join(files, ", "))
	}
	return documents, nil
}

func parseFile(file string, in io.Reader, parser kinds.Parser) ([]*kinds.Document, error) {
	name, data, err := readFile(file, in)
	if err != nil {
		return nil, err
	}
	return parser.Parse(name, data)
}

// readFile reads a file, and says what it is called.
func readFile(file string, in io.Reader) (name string, data []byte, err error) {
	if file == Stdin {
		data, err = io.ReadAll(in)
		return "standard input", data, err
	}
	if folder, is := strings.CutPrefix(file, kustomized); is {
		data, err = kustomize(folder)
		return "the kustomization " + folder, data, err
	}
	if isURL(file) {
		data, err = download(file)
		return file, data, err
	}
	data, err = os.ReadFile(file)
	return file, data, err
}

// Text is a file as it stands.
type Text struct {
	Name string
	Data []byte
}

// Texts reads all files as they stand.
func (s *Sources) Texts(in io.Reader) (texts []Text, err error) {
	files, err := s.Files()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name, data, err := readFile(file, in)
		if err != nil {
			return nil, err
		}
		texts = append(texts, Text{name, data})
	}
	return texts, nil
}
