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

	"github.com/pgmesh/pgmesh/internal/kit/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/resolvconf"
)

// marker begins the comment before our line.
const marker = "# mesh-agent:"

const markerLine = marker + " the line below asks for the names of the mesh; it is taken out by `mesh-agent dns restore`."

// linkOwners are the programs that may keep resolv.conf as a link, with a part of its target and
// advice for the user.
var linkOwners = []struct{ path, name, advice string }{
	{"systemd/resolve", "systemd-resolved", "--dns resolved is for that"},
	{"NetworkManager", "NetworkManager", "let NetworkManager leave it alone (dns=none in its configuration) and make it a file, or have it use systemd-resolved " +
		"(dns=systemd-resolved) and say --dns resolved"},
	{"resolvconf", "resolvconf", "name the resolver in /etc/resolvconf/resolv.conf.d/head, or make resolv.conf a file"},
	{"netconfig", "netconfig", "name the resolver in NETCONFIG_DNS_STATIC_SERVERS, or make resolv.conf a file"},
	{"connman", "connman", "start connmand with --nodnsproxy and make resolv.conf a file"},
}

// writable returns an error if resolv.conf is a link into another program's folder.
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
	for _, who := range linkOwners {
		if strings.Contains(to, who.path) {
			return fmt.Errorf("%s is a link to %s, which %s writes: %s; or serve only (--dns serve)", m.ResolvConf, to, who.name, who.advice)
		}
	}
	return fmt.Errorf("%s is a link to %s, which somebody else writes: have them name the resolver, or make it a file; or serve only (--dns serve)", m.ResolvConf, to)
}

// applyFile puts our server first in resolv.conf.
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
	next := addServer(original, c)
	if next == string(current) && before != nil && before.Wrote == next {
		return false, nil
	}
	// Write the record first, so that a crash at any moment can be reverted.
	if err := m.saveRecord(record{Mode: ResolvConf, Path: m.ResolvConf, Wrote: next, Original: original}); err != nil {
		return false, err
	}
	if err := replace.File(m.backupPath(), []byte(original)); err != nil {
		return false, err
	}
	return true, write(m.ResolvConf, next)
}

// backupPath is where people find the original.
func (m *Machine) backupPath() string { return m.ResolvConf + ".before-mesh-agent" }

// original returns the file without our lines: as we found it, or as others changed it since.
func (m *Machine) original(current string, before *record) string {
	if before != nil && before.Wrote == current {
		return before.Original
	}
	if before != nil {
		m.Log.Warn("somebody else has changed the file that names this machine's resolvers; what it says now is kept, behind the mesh's resolver", "file", m.ResolvConf)
	}
	return removeServer(current)
}

// addServer puts our server before the others. It removes the option to rotate servers, as the
// others do not know the mesh's names.
func addServer(original string, c Claim) string {
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

// removeServer removes our lines.
func removeServer(content string) string {
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

// write replaces a file, keeping its mode and owner. A file that is a mount point, as in
// containers, cannot be replaced; that is written in place.
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
		_ = os.Lchown(next, int(stat.Uid), int(stat.Gid)) // without permission to change the owner, the file stays ours
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

// restoreFile restores the original, or removes our lines from what others made of it.
func (m *Machine) restoreFile(before *record) (did string, err error) {
	content, err := os.ReadFile(before.Path)
	current := string(content)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		did = before.Path + " is gone; its original is in " + m.backupPath()
		return did, nil
	case err != nil:
		return "", err
	case current == before.Wrote:
		did, err = before.Path+" is as it was", write(before.Path, before.Original)
	case strings.Contains(current, marker):
		did, err = before.Path+" was changed by somebody else; our line is out of it, and the rest is as they left it", write(before.Path, removeServer(current))
	default:
		did = before.Path + " was written anew by somebody else, and is left as it is"
	}
	if err != nil {
		return "", err
	}
	if err := os.Remove(m.backupPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return did, nil
}
