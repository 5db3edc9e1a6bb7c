package claim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pgmesh/pgmesh/internal/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/dns/resolvconf"
)

// marker begins what we write.
const marker = "# mesh-agent:"

const markerLine = marker + " the line below asks for the names of the mesh; it is taken out by `mesh-agent dns restore`."

// managers are who may keep resolv.conf as a link, by a part of where that leads, and what they can be told.
var managers = []struct{ path, name, advice string }{
	{"systemd/resolve", "systemd-resolved", "--dns resolved is for that"},
	{"NetworkManager", "NetworkManager", "let NetworkManager leave it alone (dns=none in its configuration) and make it a file, or have it use systemd-resolved " +
		"(dns=systemd-resolved) and say --dns resolved"},
	{"resolvconf", "resolvconf", "name the resolver in /etc/resolvconf/resolv.conf.d/head, or make resolv.conf a file"},
	{"netconfig", "netconfig", "name the resolver in NETCONFIG_DNS_STATIC_SERVERS, or make resolv.conf a file"},
	{"connman", "connman", "start connmand with --nodnsproxy and make resolv.conf a file"},
}

// writable reports why resolv.conf is not ours to change: it is a link into somebody else's folder.
func (m *Machine) writable() error {
	info, err := os.Lstat(m.ResolvConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return err
	}
	to, err := os.Readlink(m.ResolvConf)
	if err != nil {
		return err
	}
	for _, who := range managers {
		if strings.Contains(to, who.path) {
			return fmt.Errorf("%s is a link to %s, which %s writes: %s; or serve only (--dns serve)", m.ResolvConf, to, who.name, who.advice)
		}
	}
	return fmt.Errorf("%s is a link to %s, which somebody else writes: have them name the resolver, or make it a file; or serve only (--dns serve)", m.ResolvConf, to)
}

// applyFile names our server before all others.
func (m *Machine) applyFile(c Claim, before *record) (bool, error) {
	if c.Server.Port() != 53 {
		return false, fmt.Errorf("%s cannot name a port: the resolver has to listen on port 53 of a loopback address, and is on %s", m.ResolvConf, c.Server)
	}
	if err := m.writable(); err != nil {
		return false, err
	}
	current, err := os.ReadFile(m.ResolvConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	original := m.original(string(current), before)
	next := with(original, c)
	if next == string(current) && before != nil && before.Wrote == next {
		return false, nil
	}
	// What is to be taken back is on disk before there is anything to take back.
	if err := m.remember(record{Mode: ResolvConf, Path: m.ResolvConf, Wrote: next, Original: original}); err != nil {
		return false, err
	}
	if err := replace.File(m.kept(), []byte(original)); err != nil {
		return false, err
	}
	return true, write(m.ResolvConf, next)
}

// kept is where the original lies beside the file, for people.
func (m *Machine) kept() string { return m.ResolvConf + ".before-mesh-agent" }

// original is the file without us: as we found it, or as somebody has made it since.
func (m *Machine) original(current string, before *record) string {
	if before != nil && before.Wrote == current {
		return before.Original
	}
	if before != nil {
		m.Log.Warn("somebody else has changed the file that names this machine's resolvers; what it says now is kept, behind the mesh's resolver", "file", m.ResolvConf)
	}
	return without(current)
}

// with puts our server before the others. Options to ask them in turn go, for the others do not know the names of the mesh.
func with(original string, c Claim) string {
	var out strings.Builder
	out.WriteString(markerLine + "\nnameserver " + c.Server.Addr().String() + "\n")
	for line := range strings.Lines(original) {
		if fields := resolvconf.Fields(line); len(fields) > 1 && fields[0] == "options" && slices.Contains(fields, "rotate") {
			fields = slices.DeleteFunc(fields, func(f string) bool { return f == "rotate" })
			if line = ""; len(fields) > 1 {
				line = strings.Join(fields, " ") + "\n"
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

// without takes our lines out.
func without(content string) string {
	var out strings.Builder
	ours := false
	for line := range strings.Lines(content) {
		switch {
		case strings.HasPrefix(line, marker):
			ours = true
			continue
		case ours && strings.HasPrefix(line, "nameserver"):
			ours = false
			continue
		}
		ours = false
		out.WriteString(line)
	}
	return out.String()
}

// write replaces a file that others read, and keeps its mode and owner. Where it cannot be replaced, since it is mounted by itself as in containers, it
// is written in place.
func write(path, content string) error {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".mesh-agent")
	mode := fs.FileMode(0o644)
	info, err := os.Stat(path)
	if err == nil {
		mode = info.Mode().Perm()
	}
	err = os.WriteFile(next, []byte(content), mode)
	if err == nil {
		err = os.Chmod(next, mode)
	}
	if stat, ok := owner(info); err == nil && ok {
		_ = os.Lchown(next, int(stat.Uid), int(stat.Gid)) // who may not give files away owns what it writes
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err == nil {
		return nil
	}
	os.Remove(next)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return explain(path, err)
	}
	return nil
}

func owner(info fs.FileInfo) (*syscall.Stat_t, bool) {
	if info == nil {
		return nil, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return stat, ok
}

func explain(path string, err error) error {
	switch {
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: is it immutable? lsattr %s tells, and chattr -i changes that", err, path)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: the agent has to be root, and its unit must let it write there (ReadWritePaths=%s)", err, filepath.Dir(path))
	default:
		return err
	}
}

// restoreFile writes what was there, or takes our line out of what somebody has made of it.
func (m *Machine) restoreFile(before *record) (did string, err error) {
	content, err := os.ReadFile(before.Path)
	current := string(content)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		did = before.Path + " is gone; its original is in " + m.kept()
		return did, nil
	case err != nil:
		return "", err
	case current == before.Wrote:
		did, err = before.Path+" is as it was", write(before.Path, before.Original)
	case strings.Contains(current, marker):
		did, err = before.Path+" was changed by somebody else; our line is out of it, and the rest is as they left it", write(before.Path, without(current))
	default:
		did = before.Path + " was written anew by somebody else, and is left as it is"
	}
	if err != nil {
		return "", err
	}
	if err := os.Remove(m.kept()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return did, nil
}
