package storetest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Program finds a program that came with the server, such as pg_dump, or skips the test.
func (s Session) Program(name string) string {
	s.T.Helper()
	path := filepath.Join(Value[string](s, "SELECT setting FROM pg_config WHERE name = 'BINDIR'"), name)
	if _, err := os.Stat(path); err != nil {
		s.T.Skipf("this Postgres came without %s: %v", name, err)
	}
	return path
}

// Run runs a program, which must succeed, and returns what it printed.
func Run(t testing.TB, in []byte, path string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(path, args...)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &err
	require.NoError(t, cmd.Run(), "%s %s: %s", filepath.Base(path), strings.Join(args, " "), err.String())
	return out.Bytes()
}
