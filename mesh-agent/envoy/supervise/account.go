package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Account is an operating system account that Envoy runs under.
type Account struct {
	Name     string
	UID, GID uint32
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

// chownFiles gives the account the files that Envoy needs, and no others: it can pass through the folders
// above, but not read them.
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
