package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
)

// Folder is the state folder of one agent.
type Folder struct {
	Path      string
	Temporary bool // Lock made the folder, and its release removes it

	flag *pflag.Flag
}

// Flags declares the flag that names the folder.
func (f *Folder) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Path, "state-dir", "/var/lib/mesh-agent", "folder for the machine's certificate, its key and whom it trusts, and for what the next agent has to know; "+
		"nobody else needs to read it (default with --insecure: one that goes with the agent)")
	f.flag = flags.Lookup("state-dir")
}

// Lock locks the folder for this agent. An agent without an identity has nothing to keep and gets a
// temporary folder, unless the flag names one.
func (f *Folder) Lock(insecure bool) (release func(), err error) {
	if insecure && !f.flag.Changed {
		f.Temporary = true
		if f.Path, err = os.MkdirTemp("", "mesh-agent-"); err != nil {
			return nil, err
		}
	}
	lock, err := Take(f.Path)
	if err != nil {
		return nil, err
	}
	return func() {
		_ = lock.Release()
		if f.Temporary {
			_ = os.RemoveAll(f.Path)
		}
	}, nil
}

// File returns the path of a file in the folder.
func (f *Folder) File(name string) string { return filepath.Join(f.Path, name) }

// serversFile has the addresses of the discovery that the machine joined at, one a line.
func (f *Folder) serversFile() string { return f.File("discovery") }

// SaveServers saves the addresses of the discovery that the machine joined at.
func (f *Folder) SaveServers(servers []string) error {
	return os.WriteFile(f.serversFile(), []byte(strings.Join(servers, "\n")+"\n"), 0o600)
}

// Servers returns the addresses that SaveServers saved.
func (f *Folder) Servers() []string {
	content, _ := os.ReadFile(f.serversFile()) // if it is missing, a flag has to say them
	return strings.Fields(string(content))
}

// idFile has the name of the machine's proxy that it joined under.
func (f *Folder) idFile() string { return f.File("id") }

// SaveID saves the name of the machine's proxy. "" means the usual one, and removes the file.
func (f *Folder) SaveID(id string) error { return saveLine(f.idFile(), id) }

// ID returns the name that SaveID saved, "" for the usual one.
func (f *Folder) ID() string { return readLine(f.idFile()) }

// groupFile has the WorkloadGroup that the machine joined for.
func (f *Folder) groupFile() string { return f.File("group") }

// SaveGroup saves the WorkloadGroup that the machine joined for. "" means none, and removes the
// file.
func (f *Folder) SaveGroup(group string) error { return saveLine(f.groupFile(), group) }

// Group returns the group that SaveGroup saved, "" for none.
func (f *Folder) Group() string { return readLine(f.groupFile()) }

// saveLine writes a file of one line, or removes it for none.
func saveLine(file, line string) error {
	if line != "" {
		return replace.File(file, []byte(line+"\n"))
	}
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func readLine(file string) string {
	content, _ := os.ReadFile(file) // may be missing
	return strings.TrimSpace(string(content))
}
