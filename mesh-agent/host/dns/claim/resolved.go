package claim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/resolvconf"
)

// unit is systemd-resolved's.
const unit = "systemd-resolved.service"

// minPortVersion is the first version of systemd-resolved that accepts ports.
const minPortVersion = 246

// Everything routes all names to a server.
const Everything = "~."

// maxDomains bounds the names that are routed one by one; systemd-resolved accepts 256.
const maxDomains = 200

// dropIn returns the path of our configuration, which is in /run so that it does not survive a
// reboot.
func (m *Machine) dropIn() string {
	return filepath.Join(m.Run, "resolved.conf.d", "90-mesh-agent.conf")
}

// hasResolved reports whether programs ask systemd-resolved.
func (m *Machine) hasResolved() bool {
	if _, err := os.Stat(filepath.Join(m.Run, "resolve")); err != nil {
		return false
	}
	if to, err := os.Readlink(m.ResolvConf); err == nil && strings.Contains(to, "systemd/resolve") {
		return true
	}
	content, err := os.ReadFile(m.ResolvConf)
	return err == nil && slices.ContainsFunc(resolvconf.Parse(content).Servers, resolvconf.Stub)
}

// Domains returns the domains to route to this resolver: those that complete short names, and hosts
// of the mesh. With too many hosts it routes everything.
func Domains(completions, hosts []string) []string {
	out := slices.Clone(completions)
	known := map[string]bool{}
	for _, c := range completions {
		known[c] = true
	}
	names := make([]string, 0, len(hosts))
	for _, h := range hosts {
		names = append(names, strings.TrimPrefix(h, "*."))
	}
	slices.SortFunc(names, func(a, b string) int { // shorter ones first, as they may cover others
		if n := strings.Count(a, ".") - strings.Count(b, "."); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		if !covered(known, name) {
			known[name] = true
			out = append(out, "~"+name)
		}
	}
	if len(out) > maxDomains {
		return append(slices.Clone(completions), Everything)
	}
	return out
}

func covered(known map[string]bool, name string) bool {
	for more := true; more; _, name, more = strings.Cut(name, ".") {
		if known[name] {
			return true
		}
	}
	return false
}

// render returns the drop-in. It repeats the servers that the administrator configured after ours:
// systemd-resolved asks the first, and the next when that does not answer.
func render(c Claim, configured []string) string {
	servers := []string{c.Server.String()}
	if c.Server.Port() == 53 {
		servers[0] = c.Server.Addr().String()
	}
	servers = append(servers, configured...)
	if slices.Contains(c.Domains, Everything) {
		for _, ip := range c.Others {
			if !slices.Contains(servers, ip.String()) && !resolvconf.Stub(ip) {
				servers = append(servers, ip.String())
			}
		}
	}
	return "# Written by mesh-agent, so that the names of the mesh are asked of it; `mesh-agent dns restore` takes it back.\n[Resolve]\n" +
		"DNS=\n" + // an empty value clears the list, to set it in another order
		"DNS=" + strings.Join(servers, " ") + "\nDomains=" + strings.Join(c.Domains, " ") + "\n"
}

// configured returns the servers that the administrator configured globally. Drop-ins are read in
// the order of their file names, whatever their folder.
func (m *Machine) configured() (out []string) {
	files := []string{filepath.Join(m.etc(), "resolved.conf")}
	var dropIns []string
	for _, folder := range []string{m.etc(), m.Run, "/usr/lib/systemd"} {
		found, _ := filepath.Glob(filepath.Join(folder, "resolved.conf.d", "*.conf"))
		dropIns = append(dropIns, found...)
	}
	slices.SortFunc(dropIns, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	for _, path := range append(files, dropIns...) {
		if path == m.dropIn() {
			continue
		}
		content, _ := os.ReadFile(path) // a missing file has none
		for line := range strings.Lines(string(content)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "DNS="); ok {
				if out = append(out, strings.Fields(value)...); strings.TrimSpace(value) == "" {
					out = nil
				}
			}
		}
	}
	return out
}

// etc is the folder of the administrator's configuration of systemd, beside resolv.conf.
func (m *Machine) etc() string { return filepath.Join(filepath.Dir(m.ResolvConf), "systemd") }

func (m *Machine) applyResolved(c Claim, before *record) (bool, error) {
	if c.Server.Port() != 53 {
		if v := systemdVersion(); v != 0 && v < minPortVersion {
			return false, fmt.Errorf("systemd-resolved %d takes no ports: have the resolver listen on port 53, as with --dns-listen 127.0.0.54:53", v)
		}
	}
	path, next := m.dropIn(), render(c, m.configured())
	current, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if before != nil && string(current) == next {
		return false, nil
	}
	if before != nil && before.Wrote != string(current) {
		m.Log.Warn("somebody else has changed or removed what tells systemd-resolved of the mesh; it is written anew", "file", path)
	}
	if err := m.saveRecord(record{Mode: Resolved, Path: path, Wrote: next}); err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, explain(path, err)
	}
	if err := write(path, next); err != nil {
		return false, err
	}
	// A restart makes it ask the first server again, which it may have given up on. For a change of
	// domains a reload is enough.
	if before == nil {
		return true, systemctl("restart")
	}
	return true, systemctl("reload-or-restart")
}

func (m *Machine) restoreResolved(path string) (string, error) {
	switch err := os.Remove(path); {
	case errors.Is(err, fs.ErrNotExist):
		return path + " was gone already", nil
	case err != nil:
		return "", explain(path, err)
	}
	return path + " is gone, and systemd-resolved asks as before", systemctl("reload-or-restart")
}

func systemctl(verb string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if output, err := exec.CommandContext(ctx, "systemctl", verb, unit).CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl %s %s: %w: %s", verb, unit, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// systemdVersion returns systemd's version, or 0 if it cannot be found.
func systemdVersion() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, "systemctl", "--version").Output()
	fields := strings.Fields(string(output))
	if err != nil || len(fields) < 2 {
		return 0
	}
	digits := fields[1]
	if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	version, _ := strconv.Atoi(digits)
	return version
}

// IPs returns the addresses of servers on port 53, without ports.
func IPs(servers []netip.AddrPort) (out []netip.Addr) {
	for _, s := range servers {
		if s.Port() == 53 {
			out = append(out, s.Addr())
		}
	}
	return out
}
