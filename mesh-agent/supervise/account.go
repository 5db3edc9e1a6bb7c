package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Account is one that Envoy runs under.
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

// take has a child run under the account, with the rights that a proxy needs.
func (a *Account) take(attributes *syscall.SysProcAttr, transparent bool) {
	if a == nil {
		return
	}
	attributes.Credential = &syscall.Credential{Uid: a.UID, Gid: a.GID}
	keepRights(attributes, transparent)
}

// own lets the account use what Envoy needs of the folder, and nothing else in it: the folders above can be passed through, and not be read.
func (s *Supervisor) own(bootstrap string) error {
	if err := os.MkdirAll(s.ownFolder(), 0o700); err != nil || s.Account == nil {
		return err
	}
	uid, gid := int(s.Account.UID), int(s.Account.GID)
	return errors.Join(
		os.Chmod(filepath.Dir(s.Folder), 0o711), os.Chmod(s.Folder, 0o711),
		os.Chown(s.ownFolder(), uid, gid), os.Chown(bootstrap, uid, gid), s.output.Own(uid, gid),
	)
}

// ownFolder is the one that Envoy itself writes to.
func (s *Supervisor) ownFolder() string { return filepath.Join(s.Folder, "run") }
