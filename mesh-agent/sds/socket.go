package sds

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

// Socket is where Envoy asks.
type Socket struct {
	Path     string
	listener net.Listener
}

// SocketPath is the path of the socket beneath a folder, if the machine takes one as long.
func SocketPath(folder string) (string, error) {
	path, err := filepath.Abs(filepath.Join(folder, "sds", "socket"))
	if err != nil {
		return "", err
	}
	if len(path) > longest {
		return "", fmt.Errorf("the path %s has %d characters, and that of a unix socket may have %d: choose a folder with a shorter one with --state-dir",
			path, len(path), longest)
	}
	return path, nil
}

// Listen opens the socket, in a folder that nobody else may enter: who may connect is given the key.
func Listen(path string) (*Socket, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the socket: %w", err)
	}
	if err := os.Chmod(folder, 0o700); err != nil {
		return nil, fmt.Errorf("keep others from the folder of the socket: %w", err)
	}
	if err := removeDead(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the socket for Envoy: %w", err)
	}
	return &Socket{path, listener}, nil
}

// removeDead removes a socket that a program which was killed has left.
func removeDead(path string) error {
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("another mesh-agent serves %s: stop it, or give each a folder of its own with --state-dir", path)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open the socket for Envoy: %w", err)
	}
	return nil
}

// Close removes the socket.
func (s *Socket) Close() error { return s.listener.Close() }
