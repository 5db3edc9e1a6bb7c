package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// BinDirVariable names a directory of Postgres binaries for every program and test that leaves
// Options.BinDir empty.
const BinDirVariable = "PGMESH_POSTGRES_BIN"

// Download as a binary directory stands for the downloaded build, "download-13" for that of a major
// version.
const Download = "download"

// binaries finds the directory that holds initdb and postgres.
func binaries(ctx context.Context, wanted string, who account, log *slog.Logger) (string, error) {
	if wanted == "" {
		wanted = os.Getenv(BinDirVariable) //nolint:forbidigo // tests of all packages run with it
	}
	major, versioned := strings.CutPrefix(wanted, Download+"-")
	switch {
	case wanted == Download:
		return download(ctx, "", who, log)
	case versioned:
		return download(ctx, major, who, log)
	case wanted != "" && !complete(wanted):
		return "", fmt.Errorf("%s does not hold initdb and postgres: name the bin directory of a Postgres server", wanted)
	case wanted != "":
		return wanted, nil
	}
	for _, dir := range candidates(ctx) {
		if complete(dir) && who.reaches(dir) {
			return dir, nil
		}
	}
	log.Info("no Postgres on this machine")
	return download(ctx, "", who, log)
}

// candidates lists where Postgres binaries commonly lie, the most deliberate choice first.
func candidates(ctx context.Context) []string {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",                               // Debian
		"/usr/pgsql-*/bin",                                        // PGDG on Red Hat
		"/usr/libexec/postgresql*",                                // Alpine
		"/opt/homebrew/opt/postgresql*/bin",                       // Homebrew
		"/usr/local/opt/postgresql*/bin",                          // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/[0-9]*/bin", // Postgres.app
		"/Library/PostgreSQL/*/bin",                               // EDB's installer
	} {
		found, _ := filepath.Glob(pattern)
		sort.Slice(found, func(i, j int) bool { return version(found[i]) > version(found[j]) })
		dirs = append(dirs, found...)
	}
	return dirs
}

// version is the first number in a path, so that 15 comes before 9.6 and both before none.
func version(path string) float64 {
	digits := strings.FieldsFunc(path, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	for _, d := range digits {
		if v, err := strconv.ParseFloat(strings.Trim(d, "."), 64); err == nil {
			return v
		}
	}
	return 0
}
