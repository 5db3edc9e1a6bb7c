package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// longest is what the path of a unix socket may have, of which Linux takes the most: 107 bytes.
const longest = 103 // and macOS 103

// UnixPath is the absolute path of a socket in a folder, if the machine takes one as long. The flag names the folder.
func UnixPath(flag, folder, name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		return "", err
	}
	if len(path) > longest {
		return "", fmt.Errorf("the path %s has %d characters, and that of a unix socket may have %d: choose a folder with a shorter one with --%s",
			path, len(path), longest, flag)
	}
	return path, nil
}

// Unix listens on a socket that nobody but this account, and root, may connect to. It takes the place of one that a program which was
// killed has left.
func Unix(path string) (net.Listener, error) {
	if err := removeDead(path); err != nil {
		return nil, err
	}
	// The socket is made with the rights that the mask leaves: after that would be too late.
	before := syscall.Umask(0o077)
	listener, err := net.Listen("unix", path)
	syscall.Umask(before)
	if err != nil {
		return nil, fmt.Errorf("open the socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("keep others from the socket: %w", err), listener.Close())
	}
	return listener, nil
}

// removeDead removes a socket that nobody serves.
func removeDead(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("open the socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("open the socket: %s is there, and is no socket: move it away", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("another program serves %s: stop it", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("open the socket: %w", err)
	}
	return os.Remove(path)
}
