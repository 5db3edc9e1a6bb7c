package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Account is an operating system account that Envoy runs under.
type Account struct {
	Name     string
	UID, GID uint32
}

// FindAccount returns the account that --envoy-user names, nil for "": Envoy then runs under the
// account of its agent.
func FindAccount(name string) (*Account, error) {
	if name == "" {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("--envoy-user %s: only root may run Envoy under another account: leave the flag out, or run the agent as root", name)
	}
	found, err := user.Lookup(name)
	if _, number := strconv.ParseUint(name, 10, 32); err != nil && number == nil {
		found, err = user.LookupId(name)
	}
	if err != nil {
		return nil, fmt.Errorf("--envoy-user: there is no account %q on this machine: make it (useradd --system %[1]s), or name another", name)
	}
	uid, _ := strconv.ParseUint(found.Uid, 10, 32)
	gid, _ := strconv.ParseUint(found.Gid, 10, 32)
	return &Account{Name: found.Username, UID: uint32(uid), GID: uint32(gid)}, nil
}

// Own gives the account a file or a socket. A nil account leaves it as it is.
func (a *Account) Own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.UID), int(a.GID))
}

func (a *Account) name() string {
	if a == nil {
		return ""
	}
	return a.Name
}

// apply makes a child run under the account, with the capabilities that a proxy needs.
func (a *Account) apply(attributes *syscall.SysProcAttr, transparent bool) {
	if a == nil {
		return
	}
	attributes.Credential = &syscall.Credential{Uid: a.UID, Gid: a.GID}
	grantCapabilities(attributes, transparent)
}

// chownFiles gives the account the files that Envoy needs, and no others: it can pass through the
// folders above, but not read them.
func (s *Supervisor) chownFiles(bootstrap string) error {
	if err := os.MkdirAll(s.ownFolder(), 0o700); err != nil || s.Account == nil {
		return err
	}
	uid, gid := int(s.Account.UID), int(s.Account.GID)
	return errors.Join(
		os.Chmod(filepath.Dir(s.Folder), 0o711), os.Chmod(s.Folder, 0o711),
		os.Chown(s.ownFolder(), uid, gid), os.Chown(bootstrap, uid, gid), s.output.Own(uid, gid),
	)
}

// ownFolder is the folder that Envoy itself writes to.
func (s *Supervisor) ownFolder() string { return filepath.Join(s.Folder, "run") }
