package seal_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
)

// memoryStore is a KeyStore in memory.
type memoryStore struct {
	mu   sync.Mutex
	kept []seal.Wrapped
}

func (s *memoryStore) Keys(context.Context) ([]seal.Wrapped, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.kept), nil
}

func (s *memoryStore) Add(_ context.Context, w seal.Wrapped, known int) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) != known {
		return false, nil
	}
	s.kept = append(s.kept, w)
	return true, nil
}

func (s *memoryStore) String() string {
	var all strings.Builder
	for _, w := range s.kept {
		all.WriteString(w.ID + " " + w.Text + "\n")
	}
	return all.String()
}

func load(t *testing.T, o seal.Options) *seal.Keys {
	t.Helper()
	k, err := o.Load()
	require.NoError(t, err)
	return k
}

func unlock(t *testing.T, o seal.Options, in seal.KeyStore) *seal.Keys {
	t.Helper()
	k := load(t, o)
	require.False(t, k.Can())
	require.NoError(t, k.Unlock(t.Context(), in))
	require.True(t, k.Can())
	return k
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func opens(t *testing.T, k *seal.Keys, sealed string, want []byte) {
	t.Helper()
	opened, err := k.Open(here, sealed)
	require.NoError(t, err)
	require.Equal(t, want, opened)
}

const (
	passphrase = "planted horse battery staple"
	another    = "another planted passphrase of some length"
)

func TestAPassphraseMakesTheSameKeyEverywhere(t *testing.T) {
	t.Parallel()
	kept, value := &memoryStore{}, []byte("a private key")
	o := seal.Options{PassphraseFile: file(t, "# of May\n"+passphrase+"\n")}
	one := unlock(t, o, kept)
	require.Len(t, kept.kept, 1)
	require.Regexp(t, `^[0-9a-f]{16} argon2id:t=3,m=65536,p=4:[A-Za-z0-9+/]{22}==\n$`, kept.String())
	two := unlock(t, o, kept)
	require.Len(t, kept.kept, 1)
	sealed := one.Seal(here, value)
	require.Equal(t, sealed, two.Seal(here, value))
	require.True(t, two.Current(sealed))
	require.NotEqual(t, sealed, unlock(t, o, &memoryStore{}).Seal(here, value), "another mesh has another salt")

	fresh := unlock(t, seal.Options{PassphraseFile: file(t, another+"\n"+passphrase)}, kept)
	require.Len(t, kept.kept, 2)
	opens(t, fresh, sealed, value)
	require.False(t, fresh.Current(sealed))
	again := fresh.Seal(here, value)
	require.Equal(t, again, unlock(t, seal.Options{PassphraseFile: file(t, another)}, kept).Seal(here, value))
	_, err := one.Open(here, again)
	require.ErrorContains(t, err, "--secrets-passphrase-file")
}

func TestPassphrasesThatAreNone(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"":                          "there is no passphrase",
		"planted-short\n":           "line 1 is shorter than 16 characters",
		passphrase + "\nplanted no": "line 2 is shorter",
	} {
		o := seal.Options{PassphraseFile: file(t, content)}
		_, err := o.Load()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "--secrets-passphrase-file")
		require.NotContains(t, err.Error(), "planted")
	}
	path := file(t, passphrase)
	require.NoError(t, os.Chmod(path, 0o644))
	o := seal.Options{PassphraseFile: path}
	_, err := o.Load()
	require.ErrorContains(t, err, "chmod 600")
	for _, row := range []string{"argon2id:t=3,m=65536,p=4:AAAA", "argon2id:t=3,m=4294967295,p=4:AAAAAAAAAAAAAAAAAAAAAA==", "argon2id:x"} {
		k := load(t, seal.Options{PassphraseFile: file(t, passphrase)})
		require.ErrorContains(t, k.Unlock(t.Context(), &memoryStore{kept: []seal.Wrapped{{ID: "0", Text: row}}}), "damaged", row)
	}
}

// kms is a KMS of tests: it turns bytes around, writes down each of its calls, and can be made to
// fail.
func kms(t *testing.T, script string) (command, calls string) {
	t.Helper()
	dir := t.TempDir()
	command, calls = filepath.Join(dir, "kms"), filepath.Join(dir, "calls")
	require.NoError(t, os.WriteFile(command, []byte("#!/bin/sh\necho \"$*\" >> "+calls+"\n"+script), 0o700))
	return command, calls
}

const rotate = `tr 'A-Za-z' 'N-ZA-Mn-za-m'`

func TestAKMSIsAskedOnceForEachStart(t *testing.T) {
	t.Parallel()
	kept, value := &memoryStore{}, []byte("a private key")
	command, calls := kms(t, rotate)
	asked := func() string {
		text, err := os.ReadFile(calls)
		require.NoError(t, err)
		require.NoError(t, os.Remove(calls))
		return string(text)
	}
	o := seal.Options{Command: command + " --key  mesh"}
	one := unlock(t, o, kept)
	require.Equal(t, "--key mesh encrypt\n--key mesh decrypt\n--key mesh decrypt\n", asked(), "what was encrypted is tried, and then read as others do")
	sealed := one.Seal(here, value)
	for range 100 {
		opens(t, one, sealed, value)
	}
	require.NoFileExists(t, calls)
	two := unlock(t, o, kept)
	require.Equal(t, "--key mesh decrypt\n", asked())
	require.NoError(t, two.Unlock(t.Context(), kept))
	require.NoFileExists(t, calls, "a database that is back tells nothing new")
	opens(t, two, sealed, value)
	require.Equal(t, sealed, two.Seal(here, value))
}

func TestAKMSThatFails(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`echo "no such key" >&2; exit 7`: "kms encrypt: exit status 7: no such key",
		`exit 1`:                         "kms encrypt: exit status 1",
		`cat > /dev/null`:                "it wrote nothing",
		`cat`:                            "it did not encrypt",
		`cat > /dev/null; echo x`:        "kms decrypt: what it wrote is not",
		`cat > /dev/null; head -c 70000 /dev/zero`:       "more than",
		`k=$(cat); echo "cannot encrypt $k" >&2; exit 1`: "cannot encrypt [left out]",
	} {
		command, _ := kms(t, script)
		kept := &memoryStore{}
		k := load(t, seal.Options{Command: command})
		err := k.Unlock(t.Context(), kept)
		require.ErrorContains(t, err, want, script)
		require.NotRegexp(t, `[A-Za-z0-9+/]{43}=`, err.Error(), "a key")
		require.False(t, k.Can())
		require.Empty(t, kept.kept)
	}
	for text, want := range map[string]string{
		"/does/not/exist": "no such file", "  x y": "executable file not found", " ": "no command", "sh -c 'cat'": "without a shell",
	} {
		o := seal.Options{Command: text}
		_, err := o.Load()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "--secrets-kms-command")
	}
}

// A KMS that is away must not make servers choose another key.
func TestAKMSThatIsAwayMakesNoKey(t *testing.T) {
	t.Parallel()
	kept := &memoryStore{}
	good, _ := kms(t, rotate)
	unlock(t, seal.Options{Command: good}, kept)
	away, _ := kms(t, "echo away >&2; exit 1")
	k := load(t, seal.Options{Command: away})
	require.ErrorContains(t, k.Unlock(t.Context(), kept), "kms decrypt: exit status 1: away")
	require.Len(t, kept.kept, 1)
	other, _ := kms(t, "cat > /dev/null; echo "+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, seal.KeySize)))
	k = load(t, seal.Options{Command: other})
	require.ErrorContains(t, k.Unlock(t.Context(), kept), "another key")
}

func TestServersThatStartTogetherHaveOneKey(t *testing.T) {
	t.Parallel()
	kept := &memoryStore{}
	command, _ := kms(t, rotate)
	var all [4]*seal.Keys
	var started sync.WaitGroup
	for i := range all {
		all[i] = load(t, seal.Options{Command: command})
		started.Go(func() { _ = all[i].Unlock(t.Context(), kept) })
	}
	started.Wait()
	require.Len(t, kept.kept, 1)
	for _, k := range all {
		require.Equal(t, all[0].Seal(here, []byte("x")), k.Seal(here, []byte("x")))
	}
}

func TestFromAFileToAPassphrase(t *testing.T) {
	t.Parallel()
	path := file(t, seal.NewLine())
	old := load(t, seal.Options{KeyFile: path})
	require.NoError(t, old.Unlock(t.Context(), nil), "there is nothing to unlock")
	sealed := old.Seal(here, []byte("x"))
	both := unlock(t, seal.Options{PassphraseFile: file(t, passphrase), OldKeyFile: path}, &memoryStore{})
	opens(t, both, sealed, []byte("x"))
	require.False(t, both.Current(sealed))
	require.False(t, both.Stale(both.Store("shop", "gate", map[string][]byte{"tls.key": []byte("x")})))

	for _, wrong := range []seal.Options{
		{KeyFile: path, PassphraseFile: path}, {PassphraseFile: path, Command: "cat"}, {OldKeyFile: path}, {KeyFile: path, OldKeyFile: path},
	} {
		_, err := wrong.Load()
		require.Error(t, err)
	}
	none := seal.Options{}
	k, err := none.Load()
	require.NoError(t, err)
	require.Same(t, seal.None, k)
	require.NoError(t, k.Unlock(t.Context(), nil))
}
