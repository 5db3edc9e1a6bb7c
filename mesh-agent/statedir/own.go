package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Own gives what is in a folder to the folder's owner, if it is root who asks: a package has made the folder for the account that the agent runs
// as, and root has joined the mesh in it.
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
	root, err := os.OpenRoot(folder) // the account may not lead root out of it
	if err != nil {
		return fmt.Errorf("give the agent's state to its account: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = root.Lchown(path, int(owner.Uid), int(owner.Gid))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // an agent that runs there may have ended with a file
			return fmt.Errorf("give the agent's state to its account: %w", err)
		}
		return nil
	})
}
