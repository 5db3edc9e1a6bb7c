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

// maxUnixPath is the longest socket path that both macOS (103 bytes) and Linux (107) accept.
const maxUnixPath = 103

// UnixPath returns the absolute path of a socket in a folder, or an error if it is too long for a
// socket. flag names the folder's flag.
func UnixPath(flag, folder, name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		return "", err
	}
	if len(path) > maxUnixPath {
		return "", fmt.Errorf("the path %s has %d characters, and that of a unix socket may have %d: choose a folder with a shorter one with --%s",
			path, len(path), maxUnixPath, flag)
	}
	return path, nil
}

// Unix listens on a socket that only this account and root can connect to. It replaces a socket
// that a killed program left behind.
func Unix(path string) (net.Listener, error) {
	if err := removeDead(path); err != nil {
		return nil, err
	}
	// The umask sets the rights at creation: a chmod afterwards would leave others a moment to
	// connect.
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

// removeDead removes a socket that nobody serves, and refuses to touch anything else at the path.
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
