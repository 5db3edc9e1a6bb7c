package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the account that the server runs as: this process's own or, if that is root, an
// unprivileged one.
type account struct {
	uid, gid uint32
	switched bool
}

func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{uid: uint32(uid), gid: uint32(gid), switched: true}, nil
		}
	}
	return account{}, errors.New("Postgres does not run as root and this machine has neither a user postgres nor nobody: add one, or start as another user")
}

// credential makes a child run as the account.
func (a account) credential() *syscall.Credential {
	if !a.switched {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own gives a file or directory to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// reaches reports whether the account may enter dir, as far as dir exists.
func (a account) reaches(dir string) bool {
	if !a.switched {
		return true
	}
	for ; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && !a.enters(info) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (a account) enters(dir os.FileInfo) bool {
	owner := dir.Sys().(*syscall.Stat_t)
	switch {
	case owner.Uid == a.uid:
		return dir.Mode()&0o100 != 0
	case owner.Gid == a.gid:
		return dir.Mode()&0o010 != 0
	}
	return dir.Mode()&0o001 != 0
}

// cacheDir holds downloaded builds. The account must be able to run them, and nobody else to
// replace them.
func (a account) cacheDir() (string, error) {
	dir := "/var/tmp/pgmesh-postgres"
	if !a.switched {
		home, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding a place for a downloaded Postgres: %w", err)
		}
		dir = filepath.Join(home, "pgmesh")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making a place for a downloaded Postgres: %w", err)
	}
	return dir, ownedByUs(dir)
}

// ownedByUs refuses a directory that another user prepared below a directory that everyone may
// write to.
func ownedByUs(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t); !info.IsDir() || owner.Uid != uint32(os.Geteuid()) || info.Mode()&0o022 != 0 {
		return fmt.Errorf("%s belongs to another user or can be written by others: remove it", dir)
	}
	return nil
}
