package clitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Configured runs commands with their own file of contexts.
type Configured struct {
	t   *testing.T
	Env map[string]string
}

// NewConfigured starts without a file.
func NewConfigured(t *testing.T) *Configured {
	t.Helper()
	return &Configured{t, map[string]string{"PGMESH_CONFIG": filepath.Join(t.TempDir(), "pgmesh", "config.yaml")}}
}

// Run runs a command.
func (c *Configured) Run(args ...string) Result {
	c.t.Helper()
	return Run(c.t.Context(), "", c.Env, args...)
}

// OK runs a command that must succeed without warnings, and returns its output.
func (c *Configured) OK(args ...string) string {
	c.t.Helper()
	r := c.Run(args...)
	require.Zero(c.t, r.Code, r.Err)
	require.Empty(c.t, r.Err)
	return r.Out
}

// Write writes the file of contexts.
func (c *Configured) Write(text string, mode os.FileMode) {
	c.t.Helper()
	path := c.Env["PGMESH_CONFIG"]
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(c.t, os.WriteFile(path, []byte(text), mode))
	require.NoError(c.t, os.Chmod(path, mode))
}
