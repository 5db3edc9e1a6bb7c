// Package unit runs a program as a unit of systemd would run it: with its account, its
// capabilities, its limits and its view of the machine.
package unit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// Unit is a service of systemd, as its files describe it.
type Unit struct {
	Name string
	// settings are the assignments of its section Service, with drop-ins, in their order.
	settings []string
}

// ErrNone means that there is no such unit on this machine.
var ErrNone = errors.New("there is no such unit")

// Find returns a unit. It is ErrNone if there is none, or no systemd.
func Find(ctx context.Context, name string) (*Unit, error) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil, fmt.Errorf("%w: systemd does not run here", ErrNone)
	}
	text, err := exec.CommandContext(ctx, "systemctl", "cat", "--no-pager", "--", name).Output()
	if err != nil {
		return nil, fmt.Errorf("%w as %s: %s", ErrNone, name, complaint(err))
	}
	return &Unit{name, serviceSettings(string(text))}, nil
}

// serviceSettings returns the assignments of the section Service.
func serviceSettings(files string) (all []string) {
	section := ""
	for line := range strings.Lines(strings.ReplaceAll(files, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", line[0] == '#', line[0] == ';':
		case line[0] == '[':
			section = line
		case section == "[Service]":
			if key, value, is := strings.Cut(line, "="); is {
				all = append(all, strings.TrimSpace(key)+"="+strings.TrimSpace(value))
			}
		}
	}
	return all
}

// Account returns the name of the account that the unit runs as.
func (u *Unit) Account() string {
	account := "root"
	for _, s := range u.settings {
		if name, is := strings.CutPrefix(s, "User="); is && name != "" {
			account = name
		}
	}
	return account
}

// What of a unit says as whom it runs, and what it sees and may do. The rest is about its life.
var (
	environs = []string{
		"User", "Group", "SupplementaryGroups", "DynamicUser", "AmbientCapabilities", "CapabilityBoundingSet", "NoNewPrivileges", "SecureBits", "UMask",
		"SystemCallFilter", "SystemCallErrorNumber", "SystemCallArchitectures", "LockPersonality", "MemoryDenyWriteExecute", "ProcSubset", "KeyringMode",
		"ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths", "TemporaryFileSystem", "BindPaths", "BindReadOnlyPaths",
		"RootDirectory", "RootImage", "DeviceAllow", "DevicePolicy", "AppArmorProfile", "SELinuxContext", "NetworkNamespacePath",
		"IPAddressAllow", "IPAddressDeny", "SocketBindAllow", "SocketBindDeny", "Environment", "EnvironmentFile", "PassEnvironment", "UnsetEnvironment",
	}
	environsBeginning = []string{"Protect", "Private", "Restrict", "Limit"}
	// folders are made by systemd as the unit starts, and removed as it ends. Here they are only
	// made writable, if they are there.
	folders = map[string]string{"StateDirectory": "/var/lib", "RuntimeDirectory": "/run", "CacheDirectory": "/var/cache", "LogsDirectory": "/var/log"}
)

// properties returns what a program in the place of the unit's is to be run with.
func (u *Unit) properties() (all []string) {
	for _, s := range u.settings {
		key, value, _ := strings.Cut(s, "=")
		if parent, is := folders[key]; is {
			for name := range strings.FieldsSeq(value) {
				name, _, _ = strings.Cut(name, ":")
				all = append(all, "ReadWritePaths=-"+path.Join(parent, name))
			}
		}
		if isEnviron(key) {
			all = append(all, s)
		}
	}
	return all
}

func isEnviron(key string) bool {
	return slices.Contains(environs, key) || slices.ContainsFunc(environsBeginning, func(beginning string) bool { return strings.HasPrefix(key, beginning) })
}

// Output runs a program as the unit would run it, and returns what it writes to standard output. An
// error has what it wrote to standard error. It takes root.
func (u *Unit) Output(ctx context.Context, program string, args ...string) ([]byte, error) {
	command := []string{"--quiet", "--pipe", "--wait", "--collect", "--service-type=exec"}
	for _, p := range u.properties() {
		command = append(command, "--property="+p)
	}
	output, err := exec.CommandContext(ctx, "systemd-run", append(append(command, "--", program), args...)...).Output()
	if err != nil {
		return output, fmt.Errorf("run %s as %s would: %s", program, u.Name, complaint(err))
	}
	return output, nil
}

// complaint is what a program said that failed.
func complaint(err error) string {
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		if words := bytes.TrimSpace(failed.Stderr); len(words) > 0 {
			return string(words)
		}
	}
	return err.Error()
}
