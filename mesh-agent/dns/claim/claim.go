// Package claim has the machine ask the agent's resolver for names, and gives back what it changed for that: at the agent's end, at
// its next start after a crash, or when a person asks for it.
//
// It never stands in the machine's way: whom the machine asked before stays behind the agent's resolver, and is asked when that is gone. A file that somebody
// else has changed meanwhile is theirs; only our line is taken out of it.
package claim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pgmesh/pgmesh/internal/nearest"
	"github.com/pgmesh/pgmesh/internal/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/dns/resolvconf"
)

// Mode is how the machine comes to ask.
type Mode string

// The modes. Auto is one of the others, depending on the machine.
const (
	Off        Mode = "off"
	Serve      Mode = "serve" // answer who asks; nobody is told to
	Resolved   Mode = "resolved"
	ResolvConf Mode = "resolv.conf"
	Auto       Mode = "auto"
)

// ParseMode reads what a person wrote.
func ParseMode(text string) (Mode, error) {
	modes := []string{string(Off), string(Serve), string(Resolved), string(ResolvConf), string(Auto)}
	for _, m := range modes {
		if m == text {
			return Mode(m), nil
		}
	}
	return "", fmt.Errorf("--dns %s: %s", text, nearest.Hint(text, modes, "expected one of "))
}

// Machine is one whose settings may be changed.
type Machine struct {
	// ResolvConf is the file that programs read.
	ResolvConf string
	// Run is the folder of systemd's settings that last until the next boot: /run/systemd.
	Run string
	// Record is the file in which is kept what was changed.
	Record string
	Log    *slog.Logger
}

// On is the machine that this program runs on, with a folder for the agent's own files.
func On(state string, log *slog.Logger) *Machine {
	return &Machine{ResolvConf: resolvconf.Path, Run: "/run/systemd", Record: filepath.Join(state, "dns.json"), Log: log}
}

// Claim is what the machine is told.
type Claim struct {
	Mode    Mode
	Server  netip.AddrPort
	Domains []string // with Resolved, what to ask us for; "~." is everything
	Others  []netip.Addr
}

// record is what has to be known to take a claim back.
type record struct {
	Mode     Mode   `json:"mode"`
	Path     string `json:"path"`
	Wrote    string `json:"wrote"`
	Original string `json:"original,omitempty"`
}

func (m *Machine) recall() (*record, error) {
	content, err := os.ReadFile(m.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("%s, in which is kept what was changed, cannot be read: %w; remove it when %s is as it should be", m.Record, err, m.ResolvConf)
	}
	return &r, nil
}

func (m *Machine) remember(r record) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replace.File(m.Record, content)
}

func (m *Machine) forget() error {
	if err := os.Remove(m.Record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Choose finds out what Auto means on this machine, and whether another mode can be.
func (m *Machine) Choose(mode Mode) (Mode, error) {
	resolved := m.hasResolved()
	switch mode {
	case Auto:
		if resolved {
			return Resolved, nil
		}
		if err := m.writable(); err != nil {
			m.Log.Warn("programs on this machine are not told to ask the mesh for names; the resolver answers those that do", "error", err)
			return Serve, nil
		}
		return ResolvConf, nil
	case Resolved:
		if !resolved {
			return "", fmt.Errorf("--dns resolved: systemd-resolved is not what programs here ask for names: %s neither leads to %s nor names 127.0.0.53; "+
				"--dns resolv.conf changes that file, and --dns auto does what fits", m.ResolvConf, filepath.Join(m.Run, "resolve"))
		}
	case ResolvConf:
		if err := m.writable(); err != nil {
			return "", fmt.Errorf("--dns resolv.conf: %w", err)
		}
	}
	return mode, nil
}

// Apply tells the machine. It may be repeated, and tells whether it changed anything.
func (m *Machine) Apply(c Claim) (changed bool, err error) {
	before, err := m.recall()
	if err != nil {
		return false, err
	}
	if before != nil && before.Mode != c.Mode {
		if _, err := m.Restore(); err != nil {
			return false, err
		}
		before = nil
	}
	if c.Mode == Resolved {
		return m.applyResolved(c, before)
	}
	return m.applyFile(c, before)
}

// Restore takes back what Apply did, and says in words what that was: nothing, if it is empty.
func (m *Machine) Restore() (did string, err error) {
	before, err := m.recall()
	if err != nil {
		return "", err
	}
	switch {
	case before == nil:
		return m.restoreUnknown()
	case before.Mode == Resolved:
		did, err = m.restoreResolved(before.Path)
	default:
		did, err = m.restoreFile(before)
	}
	if err != nil {
		return "", fmt.Errorf("take back what was changed for the mesh's names: %w", err)
	}
	return did, m.forget()
}

// restoreUnknown looks for what was left behind by somebody whose record is lost.
func (m *Machine) restoreUnknown() (string, error) {
	if _, err := os.Stat(m.dropIn()); err == nil {
		return m.restoreResolved(m.dropIn())
	}
	content, err := os.ReadFile(m.ResolvConf)
	if err != nil || !strings.Contains(string(content), marker) {
		return "", nil //nolint:nilerr // a file that is not there has nothing to take back
	}
	return m.restoreFile(&record{Path: m.ResolvConf})
}

// Permitted reports whether this process may tell the machine. If not, root has to: mesh-agent dns apply.
func (m *Machine) Permitted(mode Mode) bool {
	path := m.ResolvConf
	if mode == Resolved {
		path = m.Run
	} else if _, err := os.Stat(path); err != nil {
		path = filepath.Dir(path)
	}
	return unix.Access(path, unix.W_OK) == nil
}

// Routes reports whether systemd-resolved is told to ask us, by whomever.
func (m *Machine) Routes() bool {
	_, err := os.Stat(m.dropIn())
	return err == nil
}

// Upstreams are whom systemd-resolved asks itself.
func (m *Machine) Upstreams() []netip.Addr {
	content, _ := os.ReadFile(filepath.Join(m.Run, "resolve", "resolv.conf")) // without it there are none
	return resolvconf.Parse(content).Servers
}

// In reports whether something is applied.
func (m *Machine) In() bool {
	r, err := m.recall()
	return r != nil || err != nil
}
