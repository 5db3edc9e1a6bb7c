package orms

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

const root = "../../.."

// section is what a section of a page has people do: the files that it has them write, by name, the
// commands, and what these print.
type section struct {
	files    map[string]string
	commands string
	printed  string
}

var block = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// read reads a section. A block is a file if the paragraph before it names one.
func read(t *testing.T, page, title string) section {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n## "+title+"\n")
	require.True(t, found, "%s has no section %s", page, title)
	body, _, _ := strings.Cut(after, "\n## ")
	return parse(body)
}

func parse(body string) section {
	s := section{files: map[string]string{}}
	for _, at := range block.FindAllStringSubmatchIndex(body, -1) {
		language, text := body[at[2]:at[3]], body[at[4]:at[5]]
		switch language {
		case "sh":
			s.commands += text
		case "text":
			s.printed += text
		default:
			if name := named.FindStringSubmatch(strings.TrimSpace(body[:at[0]])); name != nil {
				s.files[name[1]] = text
			}
		}
	}
	return s
}

// named is the end of a paragraph that names the file of the block after it.
var named = regexp.MustCompile("`([\\w./]+\\.\\w+)`(?:[^\n]|\n[^\n])*:$")

// folder is a new folder with the files of a section.
func (s section) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range s.files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// tools returns the folder that `make orms` fills. Without that the test is skipped.
func tools(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("ORMS")
	if folder == "" {
		t.Skip("no ORMs: `make orms` brings them, which takes minutes the first time, and runs these tests")
	}
	return folder
}

// bookinfo is a mesh with the sample that the pages are about.
func bookinfo(t *testing.T) storetest.Session {
	t.Helper()
	s := storetest.Connect(t, pgtest.New(t))
	sample, err := os.ReadFile(filepath.Join(root, "docs/bookinfo.sql"))
	require.NoError(t, err)
	s.Exec(string(sample))
	return s
}

// run has bash run commands in a folder, which must succeed, and returns what they print.
func run(t *testing.T, dir, database, commands string) string {
	t.Helper()
	out, err := try(t, dir, database, commands)
	require.NoError(t, err, out)
	return out
}

// try is run for commands that may fail.
func try(t *testing.T, dir, database, commands string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	folder := os.Getenv("ORMS")
	cmd.Env = append(os.Environ(),
		"DATABASE_URL="+database, "PYTHONPATH="+filepath.Join(folder, "orms"), "PGMESH_HTTP=127.0.0.1:0", "PGMESH_API=", "GOFLAGS=-mod=mod",
		"PATH="+strings.Join([]string{bin, filepath.Join(folder, "bin"), filepath.Join(folder, "orms/bin"), os.Getenv("PATH")}, ":"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
