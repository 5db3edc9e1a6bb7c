package attack

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/softhsm"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// Whoever reads the memory of an mcp-server finds all that is in it. A root's key that is elsewhere
// must not be.
func TestARootsKeyElsewhereIsNotInTheMemoryOfServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := authority.NewRoot("cluster.local", authority.RootLifetime)
	require.NoError(t, err)
	text, err := root.KeyPEM()
	require.NoError(t, err)
	key, err := authority.ParseKey(text)
	require.NoError(t, err)
	files := stack.Files{Cert: filepath.Join(dir, "root.pem"), Roots: filepath.Join(dir, "root.pem"), Key: filepath.Join(dir, "root.key")}
	require.NoError(t, os.WriteFile(files.Cert, root.ChainPEM(), 0o600))
	require.NoError(t, os.WriteFile(files.Key, text, 0o600))
	kms := filepath.Join(dir, "kms-sign")
	script := fmt.Sprintf("#!/bin/sh -eu\nexec openssl pkeyutl -sign -inkey %s -pkeyopt digest:$2\n", files.Key)
	require.NoError(t, os.WriteFile(kms, []byte(script), 0o700))

	fromFile := meshOf(t, files, func(*stack.Stack) {})
	require.True(t, remembers(t, fromFile.MCPServer.Pid(), key.(*ecdsa.PrivateKey)), "this test finds no key where there is one")
	elsewhere := meshOf(t, stack.Files{Cert: files.Cert, Roots: files.Roots}, func(s *stack.Stack) { s.ServerFlags("--authority-signer-command", kms) })
	elsewhere.join("shop/cart")
	require.False(t, remembers(t, elsewhere.MCPServer.Pid(), key.(*ecdsa.PrivateKey)))
}

// The commands are those of docs/own-pki.md.
func TestARootsKeyStaysInItsToken(t *testing.T) {
	t.Parallel()
	token := softhsm.New(t)
	dir := filepath.Dir(token.PINFile)
	page, err := os.ReadFile("../../../docs/own-pki.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?ms)^```sh token\n(.*?)^```$").FindStringSubmatch(string(page))
	require.NotNil(t, block)
	lines := strings.ReplaceAll(block[1], "/usr/lib/softhsm/libsofthsm2.so", token.Module)
	lines = strings.ReplaceAll(lines, "mesh", "docs") // softhsm has made a token mesh
	require.NoError(t, os.WriteFile(filepath.Join(dir, "so-pin"), []byte("1234"), 0o600))
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", lines+`echo "$ROOT"`)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), token.Variable, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	require.NoError(t, err, "%s", lines)
	said := strings.Fields(string(out))
	uri := said[len(said)-1]
	require.Contains(t, token.Tool(t, "--token-label", "docs", "--list-objects", "--type", "privkey"), "never extractable")

	cert := filepath.Join(dir, "root.pem")
	m := meshOf(t, stack.Files{Cert: cert, Key: uri, Roots: cert}, func(s *stack.Stack) { s.MCPServer.Via("/usr/bin/env", token.Variable) })
	b := newBystander(m) // with a machine and an Envoy: the root signs everything
	b.change()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", m.MCPServer.Pid()))
	require.NoError(t, err)
	require.NotContains(t, string(maps), "softhsm", "the library is in the server")
}

// meshOf starts a mesh whose authority is not in the database. The function may add flags before.
func meshOf(t *testing.T, files stack.Files, prepare func(*stack.Stack)) *mesh {
	t.Helper()
	database := pgtest.New(t)
	control, err := stack.NewSecure(bin, t.TempDir(), database, &files)
	require.NoError(t, err)
	prepare(control)
	t.Cleanup(func() {
		control.Stop()
		if t.Failed() {
			t.Logf("mcp-server's log:\n%s", control.MCPServer.Log())
		}
	})
	require.NoError(t, control.Start(t.Context()))
	return &mesh{Stack: control, t: t, database: database, owner: connect(t, database)}
}

// remembers looks for a key in the memory of a process, as it is stored and as Go computes with it.
func remembers(t *testing.T, pid int, key *ecdsa.PrivateKey) bool {
	t.Helper()
	secret, err := key.Bytes()
	require.NoError(t, err)
	backwards := slices.Clone(secret)
	slices.Reverse(backwards)
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	defer maps.Close()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	require.NoError(t, err)
	defer memory.Close()
	read := 0
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uint64
		var rights string
		_, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &rights)
		require.NoError(t, err)
		if !strings.HasPrefix(rights, "rw") {
			continue
		}
		content := make([]byte, to-from)
		n, _ := memory.ReadAt(content, int64(from)) // some of it cannot be read
		read += n
		if bytes.Contains(content[:n], secret) || bytes.Contains(content[:n], backwards) {
			return true
		}
	}
	require.Greater(t, read, 1<<20)
	return false
}
