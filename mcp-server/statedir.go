package main

import (
	"os"
	"path/filepath"

	"github.com/pgmesh/pgmesh/internal/program"
)

// defaultStateDir returns the folder that systemd made for the service, the system's folder for
// root, or one in the user's home.
func defaultStateDir() string {
	if dir := program.StateDirectory(); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/pgmesh"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pgmesh")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "" // nowhere to keep anything
	}
	return filepath.Join(home, ".local", "state", "pgmesh")
}
