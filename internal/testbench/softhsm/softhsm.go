// Package softhsm gives a test its own PKCS #11 token: SoftHSM's, which stores its contents in
// files and behaves like a hardware token.
package softhsm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Token is an empty token, called mesh.
type Token struct {
	Module  string // the path of the PKCS #11 library
	PINFile string
	// Variable is the environment variable that users of the token need.
	Variable string
}

const (
	pin = "5678"
	// packages are the required packages of Debian and Ubuntu.
	packages = "softhsm2 opensc"
)

// New creates a token. It skips the test if SoftHSM or OpenSC is not installed.
func New(t testing.TB) *Token {
	t.Helper()
	module := library()
	for _, program := range []string{"softhsm2-util", "pkcs11-tool"} {
		if _, err := exec.LookPath(program); err != nil || module == "" {
			t.Skipf("this machine has no SoftHSM or no OpenSC: apt-get install %s (tools/machine-packages does)", packages)
		}
	}
	dir := t.TempDir()
	config := fmt.Sprintf("directories.tokendir = %s\nobjectstore.backend = file\nlog.level = ERROR\n", dir)
	file := filepath.Join(dir, "softhsm2.conf")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	made := &Token{Module: module, PINFile: filepath.Join(dir, "pin"), Variable: "SOFTHSM2_CONF=" + file}
	require.NoError(t, os.WriteFile(made.PINFile, []byte(pin+"\n"), 0o600))
	cmd := made.Command("softhsm2-util", "--init-token", "--free", "--label", "mesh", "--so-pin", "1234", "--pin", pin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return made
}

// library returns the path of SoftHSM's library, or "".
func library() string {
	for _, pattern := range []string{"/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/*/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so", "/usr/local/lib/softhsm/libsofthsm2.so"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// URI returns the PKCS #11 URI of a key in the token.
func (k *Token) URI(object string) string {
	return "pkcs11:token=mesh;object=" + object + "?module-path=" + k.Module + "&pin-source=" + k.PINFile
}

// Command returns a command that can use the token.
func (k *Token) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), k.Variable)
	return cmd
}

// Tool runs pkcs11-tool, logged in.
func (k *Token) Tool(t testing.TB, args ...string) string {
	t.Helper()
	out, err := k.Command("pkcs11-tool", append([]string{"--module", k.Module, "--token-label", "mesh", "--login", "--pin", pin}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}
