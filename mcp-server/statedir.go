package main

import (
	"os"
	"path/filepath"
	"strings"
)

// defaultStateDir is the folder that systemd has made for the service, the system's for root, or one in the user's home.
func defaultStateDir() string {
	if dirs := os.Getenv("STATE_DIRECTORY"); dirs != "" {
		first, _, _ := strings.Cut(dirs, ":")
		return first
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
