package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// runIn runs a program in a folder, as somebody whose own settings of git do not count.
func runIn(t *testing.T, folder, name string, words ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, words...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=auto", "GOWORK=off", "CGO_ENABLED=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, words, out)
}

// repository makes a repository with a commit of a small program.
func repository(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "repository")
	require.NoError(t, os.Mkdir(folder, 0o755))
	for name, text := range map[string]string{
		"go.mod": "module example.com/small\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n", ".gitignore": "dist/\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	runIn(t, folder, "git", "init", "--quiet")
	runIn(t, folder, "git", "add", ".")
	runIn(t, folder, "git", "commit", "--quiet", "--message", "A program")
	return folder
}

func TestAProgramSaysOfWhichCommitItIs(t *testing.T) {
	t.Parallel()
	folder := repository(t)
	commit, err := ask(t.Context(), folder, "git", "rev-parse", "HEAD")
	require.NoError(t, err)
	says := func(folder, commit string, modified bool) bool {
		runIn(t, folder, "go", "build", "-o", "dist/program", ".")
		marked, err := marks(filepath.Join(folder, "dist", "program"), commit, modified)
		require.NoError(t, err)
		return marked
	}
	require.True(t, says(folder, commit, false))
	require.False(t, says(folder, "another", false))

	worktree := filepath.Join(t.TempDir(), "worktree")
	runIn(t, folder, "git", "worktree", "add", "--quiet", worktree)
	require.False(t, says(worktree, commit, false), "if Go records the commit there by now, docs/releases.md need not ask for a clone")

	require.NoError(t, os.WriteFile(filepath.Join(folder, "unknown.go"), []byte("package main\n"), 0o644))
	require.False(t, says(folder, commit, false))
	require.True(t, says(folder, commit, true))
}

// What git does not know may be a part of a program, and Go says so in the program.
func TestWhatAKeySignsHasNoFileThatGitDoesNotKnow(t *testing.T) {
	t.Parallel()
	r := &release{options: &options{key: "some"}, root: repository(t)}
	require.NoError(t, r.readCommit(t.Context()))
	require.False(t, r.modified)
	require.NoError(t, os.Mkdir(filepath.Join(r.root, "dist"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(r.root, "dist", "ignored.go"), nil, 0o644))
	require.NoError(t, r.readCommit(t.Context()))

	require.NoError(t, os.WriteFile(filepath.Join(r.root, "unknown.go"), []byte("package main\n"), 0o644))
	require.ErrorContains(t, r.readCommit(t.Context()), "unknown.go")
	r.key = ""
	require.NoError(t, r.readCommit(t.Context()))
	require.True(t, r.modified)
}
