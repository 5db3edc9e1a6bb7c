package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Own gives the content of a folder to the folder's owner; it does something only for root. A
// package creates the folder for the agent's account, and then root joins the mesh and writes into
// it.
func Own(folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Lstat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("give the agent's state to its account: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(folder) // so that the account cannot lead root elsewhere by a symbolic link
	if err != nil {
		return fmt.Errorf("give the agent's state to its account: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = root.Lchown(path, int(owner.Uid), int(owner.Gid))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a running agent may have removed the file meanwhile
			return fmt.Errorf("give the agent's state to its account: %w", err)
		}
		return nil
	})
}
