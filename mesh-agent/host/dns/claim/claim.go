// Package claim makes the machine use the agent's resolver, and reverts that at the agent's end, at
// its next start after a crash, or on request.
//
// It must never break name resolution: the previous resolvers stay configured behind the agent's,
// and take over when that is gone. If someone else changes the file meanwhile, their version stays;
// only our lines are removed.
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

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/internal/kit/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/resolvconf"
)

// Mode is how the machine is configured to use the resolver.
type Mode string

// The modes. Auto stands for one of the others, depending on the machine.
const (
	Off        Mode = "off"
	Serve      Mode = "serve" // answer queries, but configure nothing
	Resolved   Mode = "resolved"
	ResolvConf Mode = "resolv.conf"
	Auto       Mode = "auto"
)

// ParseMode parses the value of --dns.
func ParseMode(text string) (Mode, error) {
	modes := []string{string(Off), string(Serve), string(Resolved), string(ResolvConf), string(Auto)}
	for _, m := range modes {
		if m == text {
			return Mode(m), nil
		}
	}
	return "", fmt.Errorf("--dns %s: %s", text, nearest.Hint(text, modes, "expected one of "))
}

// Machine is a machine whose configuration may be changed.
type Machine struct {
	// ResolvConf is the file that programs read.
	ResolvConf string
	// Run is the folder of systemd's runtime configuration, /run/systemd.
	Run string
	// Record is the file that records what was changed.
	Record string
	Log    *slog.Logger
}

// On returns the machine that this program runs on. The record lies in the state folder.
func On(state string, log *slog.Logger) *Machine {
	return &Machine{ResolvConf: resolvconf.Path, Run: "/run/systemd", Record: filepath.Join(state, "dns.json"), Log: log}
}

// Claim is the configuration to apply.
type Claim struct {
	Mode    Mode
	Server  netip.AddrPort
	Domains []string // with Resolved: the domains to route to Server; "~." is everything
	Others  []netip.Addr
}

// record is what Restore needs to know.
type record struct {
	Mode     Mode   `json:"mode"`
	Path     string `json:"path"`
	Wrote    string `json:"wrote"`
	Original string `json:"original,omitempty"`
}

func (m *Machine) loadRecord() (*record, error) {
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

func (m *Machine) saveRecord(r record) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replace.File(m.Record, content)
}

func (m *Machine) removeRecord() error {
	if err := os.Remove(m.Record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Choose resolves Auto for this machine, and checks that any other mode is possible.
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

// Apply configures the machine, and reports whether that changed anything. It may be repeated.
func (m *Machine) Apply(c Claim) (changed bool, err error) {
	before, err := m.loadRecord()
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

// Restore reverts Apply, and describes what it did; "" for nothing.
func (m *Machine) Restore() (did string, err error) {
	before, err := m.loadRecord()
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
	return did, m.removeRecord()
}

// restoreUnknown reverts what was applied if its record is lost.
func (m *Machine) restoreUnknown() (string, error) {
	if _, err := os.Stat(m.dropIn()); err == nil {
		return m.restoreResolved(m.dropIn())
	}
	content, err := os.ReadFile(m.ResolvConf)
	if err != nil || !strings.Contains(string(content), marker) {
		return "", nil //nolint:nilerr // a missing file needs no restoring
	}
	return m.restoreFile(&record{Path: m.ResolvConf})
}

// Permitted reports whether this process may configure the machine. If not, root has to: mesh-agent
// dns apply.
func (m *Machine) Permitted(mode Mode) bool {
	path := m.ResolvConf
	if mode == Resolved {
		path = m.Run
	} else if _, err := os.Stat(path); err != nil {
		path = filepath.Dir(path)
	}
	return unix.Access(path, unix.W_OK) == nil
}

// Routes reports whether systemd-resolved is configured to ask this resolver, by any process.
func (m *Machine) Routes() bool {
	_, err := os.Stat(m.dropIn())
	return err == nil
}

// Upstreams returns systemd-resolved's own upstreams.
func (m *Machine) Upstreams() []netip.Addr {
	content, _ := os.ReadFile(filepath.Join(m.Run, "resolve", "resolv.conf")) // a missing file has none
	return resolvconf.Parse(content).Servers
}

// Applied reports whether a claim is applied.
func (m *Machine) Applied() bool {
	r, err := m.loadRecord()
	return r != nil || err != nil
}
