// Package containerfile reads the Containerfile of the images: what of it this repository uses, and
// nothing else.
package containerfile

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// File is a Containerfile.
type File struct {
	// Stages has the stages by name, and Args the defaults of the ARGs before the first stage.
	Stages map[string]*Stage
	Args   map[string]string
}

// Stage is a FROM with the instructions that follow it, after those of the stage that it is from.
type Stage struct {
	Name, From string
	Lines      []Instruction
}

// Instruction is a line, such as USER 65532.
type Instruction struct{ Word, Rest string }

var (
	instructions = []string{"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "LABEL", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
	from         = regexp.MustCompile(`^(?:--platform=\S+ )?(\S+) AS (\S+)$`)
)

// Read reads a file. A line that it does not know is an error.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{Stages: map[string]*Stage{}, Args: map[string]string{}}
	var current *Stage
	for number, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if current, err = f.add(current, line); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, number+1, err)
		}
	}
	return f, nil
}

// add adds a line to a stage, and returns the stage that the next line belongs to.
func (f *File) add(current *Stage, line string) (*Stage, error) {
	word, rest, ok := strings.Cut(line, " ")
	switch {
	case !ok || !slices.Contains(instructions, word):
		return nil, fmt.Errorf("no instruction that is known here: %s", line)
	case word == "FROM":
		parts := from.FindStringSubmatch(rest)
		if parts == nil || f.Stages[parts[2]] != nil {
			return nil, fmt.Errorf("a stage without a name of its own: %s", line)
		}
		current = &Stage{Name: parts[2], From: parts[1]}
		if base := f.Stages[current.From]; base != nil {
			current.Lines = slices.Clone(base.Lines)
		}
		f.Stages[current.Name] = current
	case current != nil:
		current.Lines = append(current.Lines, Instruction{word, rest})
	case word == "ARG":
		name, value, _ := strings.Cut(rest, "=")
		f.Args[name] = value
	default:
		return nil, fmt.Errorf("an instruction before any stage: %s", line)
	}
	return current, nil
}

// All returns the arguments of an instruction in the stage, in order.
func (s *Stage) All(word string) []string {
	var found []string
	for _, line := range s.Lines {
		if line.Word == word {
			found = append(found, line.Rest)
		}
	}
	return found
}

// Last returns those of the last, which counts; "" if there is none.
func (s *Stage) Last(word string) string {
	if all := s.All(word); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// List returns a command line, such as that of ENTRYPOINT. One that is no list would go through a
// shell, which images have none of.
func (s *Stage) List(word string) ([]string, error) {
	text := s.Last(word)
	if text == "" {
		return nil, nil
	}
	var words []string
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		return nil, fmt.Errorf("%s %s of %s would go through a shell, which there is none of: %w", word, text, s.Name, err)
	}
	return words, nil
}
