package signing_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

var at = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func TestTheSameTextHasTheSameSignature(t *testing.T) {
	t.Parallel()
	first, err := signing.Make(at)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, first.Write(file))
	again, err := signing.Read(file, nil, at)
	require.NoError(t, err)
	require.Equal(t, first.Fingerprint(), again.Fingerprint())

	for _, sign := range []func(*signing.Key) ([]byte, error){
		func(k *signing.Key) ([]byte, error) { return k.Detached(strings.NewReader("text")) },
		func(k *signing.Key) ([]byte, error) { return k.Packet(strings.NewReader("text")) },
		func(k *signing.Key) ([]byte, error) { return k.Clear([]byte("text\n")) },
		func(k *signing.Key) ([]byte, error) { return k.Bare([]byte("text")) },
		(*signing.Key).Public,
	} {
		one, err := sign(first)
		require.NoError(t, err)
		other, err := sign(again)
		require.NoError(t, err)
		require.Equal(t, one, other)
	}
}

// gpg makes a key as people do, and returns the file with it.
func gpg(t *testing.T, kind, passphrase string) (home, file string) {
	t.Helper()
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Skip("this machine has no gpg")
	}
	home, err := os.MkdirTemp("", "gpg-") // its sockets need a short path
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		os.RemoveAll(home)
	})
	run(t, home, "--batch", "--pinentry-mode", "loopback", "--passphrase", passphrase, "--quick-gen-key", "releases@example.com", kind, "sign", "never")
	file = filepath.Join(home, "secret.asc")
	run(t, home, "--batch", "--pinentry-mode", "loopback", "--passphrase", passphrase, "--armor", "--output", file, "--export-secret-keys")
	return home, file
}

func run(t *testing.T, home string, words ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "gpg", append([]string{"--homedir", home}, words...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestAKeyOfGPGIsUnlockedAndItsSignaturesHold(t *testing.T) {
	t.Parallel()
	home, file := gpg(t, "rsa3072", "opens it")
	_, err := signing.Read(file, []byte("another"), at)
	require.ErrorContains(t, err, "unlock the key")
	key, err := signing.Read(file, []byte("opens it"), at) // a time before the key was made
	require.NoError(t, err)

	text, signature := filepath.Join(home, "text"), filepath.Join(home, "text.asc")
	require.NoError(t, os.WriteFile(text, []byte("text"), 0o600))
	made, err := key.Detached(strings.NewReader("text"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(signature, made, 0o600))
	run(t, home, "--verify", signature, text)
	inText, err := key.Clear([]byte("text\n"))
	require.NoError(t, err)
	signed := filepath.Join(home, "signed")
	require.NoError(t, os.WriteFile(signed, inText, 0o600))
	run(t, home, "--verify", signed)
}

func TestKeysThatSomeProgramDoesNotTakeAreRefused(t *testing.T) {
	t.Parallel()
	_, file := gpg(t, "ed25519", "")
	_, err := signing.Read(file, nil, at)
	require.ErrorContains(t, err, "signed by an RSA key of 3072 bits or more")
}
