// Package settings reads the configuration file of an agent: values for flags, by the flags' names,
// and the services of the machine.
//
//	discovery: discovery.example:15012
//	labels: {app: cart}
//	drain-time: 10s
//	services:
//	- group: cart
//	  ports: {http: 8080}
//	  readiness:
//	    httpGet: {port: 8080, path: /ready}
//
// A flag wins over an environment variable, a variable over the file, the file over discovery's
// settings, and those over the default.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/program"
)

// DefaultPath is the default path of the file. It need not exist.
const DefaultPath = "/etc/mesh-agent/mesh-agent.yaml"

// maxBytes is more than people write.
const maxBytes = 1 << 20

// servicesKey is the only key that is not a flag.
const servicesKey = "services"

// File is the content of a file. The zero value is empty.
type File struct {
	Path     string // "" if there is no file
	Services []Service

	settings []setting
}

// setting is a flag's value in the file.
type setting struct {
	name  string
	value *yaml.Node
}

// Read reads a file. A missing file is an error only if it is required. It tries every value on the
// trial flags, which must not be used for anything else.
func Read(path string, required bool, trial *pflag.FlagSet) (*File, error) {
	text, err := load(path)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return &File{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &reader{path: path}
	f := r.file(text, trial)
	r.permissions(f)
	return f, r.err()
}

func load(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("read the configuration file: %w: do this as root or as the user of the agent, or choose another file with --config (\"\" for none)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration file: %w", err)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("the configuration file %s has more than %d bytes: it is no file of settings", path, maxBytes)
	}
	return text, nil
}

// Apply sets the flags that the file has, unless the command line or a variable has set them.
func (f *File) Apply(flags *pflag.FlagSet) error {
	for _, s := range f.settings {
		flag := flags.Lookup(s.name)
		if flag == nil || flag.Changed {
			continue
		}
		if err := set(flags, flag, s.value); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", f.Path, s.value.Line, s.name, err)
		}
		_ = flags.SetAnnotation(s.name, program.From, []string{f.Path + ":" + strconv.Itoa(s.value.Line)}) // the flag exists
	}
	return nil
}

// Offer sets a flag that nothing on this machine has set, to a value from elsewhere.
func Offer(flags *pflag.FlagSet, name, value, from string) error {
	flag := flags.Lookup(name)
	if flag == nil || flag.Changed {
		return nil
	}
	if err := flags.Set(name, value); err != nil {
		return fmt.Errorf("%s: --%s: %w", from, name, explain(flag, value, err))
	}
	return flags.SetAnnotation(name, program.From, []string{from})
}

// syntaxError matches the position in the YAML library's errors.
var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func (r *reader) file(text []byte, trial *pflag.FlagSet) *File {
	f := &File{Path: r.path}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	document := &yaml.Node{}
	err := decoder.Decode(document)
	if errors.Is(err, io.EOF) {
		return f
	}
	if err != nil {
		r.syntax(err)
		return f
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		r.problemf(document, "there is a second document in this file, which nobody would read: put all into one")
	}
	root := document.Content[0]
	if isNull(root) {
		return f // only comments
	}
	fields := map[string]func(key, value *yaml.Node){
		servicesKey: func(_, value *yaml.Node) { f.Services = r.services(value) },
	}
	trial.VisitAll(func(flag *pflag.Flag) {
		fields[flag.Name] = func(_, value *yaml.Node) {
			if err := set(trial, flag, value); err != nil {
				r.problemf(value, "%s: %v", flag.Name, err)
				return
			}
			f.settings = append(f.settings, setting{flag.Name, value})
		}
	})
	for _, no := range []string{Flag, "help"} {
		delete(fields, no)
	}
	if has(root, "contexts") {
		r.problemf(root, "these are contexts of mcp-client, whose file PGMESH_CONFIG names, too: name that of the agent with --config")
		return f
	}
	r.object(root, "setting", fields)
	return f
}

func (r *reader) syntax(err error) {
	at := &yaml.Node{Line: 1}
	if found := syntaxError.FindStringSubmatch(err.Error()); found != nil && found[1] != "" {
		at.Line, _ = strconv.Atoi(found[1])
	}
	r.problemf(at, "this is no YAML: %s", syntaxError.ReplaceAllString(err.Error(), ""))
}

// secrets are flags whose values are secret.
var secrets = []string{"token"}

// permissions refuses a file that lets other users run commands as the agent or read a secret.
func (r *reader) permissions(f *File) {
	info, err := os.Stat(r.path)
	if err != nil || !info.Mode().IsRegular() {
		return // it was readable a moment ago; and a pipe belongs to its writer
	}
	mode := info.Mode().Perm()
	if mode&0o002 != 0 {
		r.fileProblemf("everybody on this machine can write it, and with it choose what the agent runs: chmod o-w %s", r.path)
	}
	for _, s := range f.settings {
		for _, secret := range secrets {
			if s.name == secret && mode&0o007 != 0 {
				r.problemf(s.value, "%s is a secret, and everybody on this machine can read it here: chmod o= %s", s.name, r.path)
			}
		}
	}
}

// Secret reports whether a flag's value is secret.
func Secret(name string) bool {
	return strings.Contains(" "+strings.Join(secrets, " ")+" ", " "+name+" ")
}
