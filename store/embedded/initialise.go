package embedded

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// initialise creates the database cluster if needed, and returns the superuser's password.
func initialise(ctx context.Context, bin string, l layout, who account, o Options) (string, error) {
	if _, err := os.Stat(filepath.Join(l.data(), "PG_VERSION")); err == nil {
		return existing(ctx, bin, l)
	}
	password := rand.Text()
	if err := os.WriteFile(l.passwordFile(), []byte(password), 0o600); err != nil {
		return "", fmt.Errorf("keeping the password of Postgres: %w", err)
	}
	if err := who.own(l.passwordFile()); err != nil {
		return "", err
	}
	// Left behind by a start that was interrupted: initdb takes only an empty directory.
	if err := os.RemoveAll(l.data()); err != nil {
		return "", err
	}
	args := []string{
		"--pgdata", l.data(), "--username", User, "--pwfile", l.passwordFile(),
		"--auth-local", "trust", "--auth-host", "scram-sha-256", "--encoding", "UTF8", "--locale", "C",
	}
	if o.Fast {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	cmd.Dir = l.base
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initialising Postgres in %s: %w: %s", l.base, err, strings.TrimSpace(string(out)))
	}
	return password, nil
}

// existing reads the password of an existing cluster, if this Postgres can serve it.
func existing(ctx context.Context, bin string, l layout) (string, error) {
	made, err := os.ReadFile(filepath.Join(l.data(), "PG_VERSION"))
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", bin, err)
	}
	want := strings.TrimSpace(string(made))
	if have := string(out); !strings.Contains(have, " "+want+".") && !strings.Contains(have, " "+want+"\n") && !strings.Contains(have, " "+want+" ") {
		return "", fmt.Errorf("the data in %s was made by Postgres %s and %s holds %s: set %s to a Postgres %s, or remove the data",
			l.base, want, bin, strings.TrimSpace(have), BinDirVariable, want)
	}
	password, err := os.ReadFile(l.passwordFile())
	if err != nil {
		return "", fmt.Errorf("reading the password of the Postgres in %s: %w; remove the directory to start afresh", l.base, err)
	}
	return strings.TrimSpace(string(password)), nil
}
