package seal_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
)

func keys(t *testing.T, seeds ...byte) *seal.Keys {
	t.Helper()
	var secrets [][]byte
	for _, seed := range seeds {
		secrets = append(secrets, bytes.Repeat([]byte{seed}, seal.KeySize))
	}
	k, err := seal.New(secrets...)
	require.NoError(t, err)
	return k
}

var here = seal.Place{Namespace: "shop", Name: "gate", Value: "tls.key"}

func TestSealedValuesOpenOnlyInTheirPlace(t *testing.T) {
	t.Parallel()
	k, value := keys(t, 1), []byte("a private key")
	sealed := k.Seal(here, value)
	require.Regexp(t, `^pgmesh:v1:[0-9a-f]{16}:[A-Za-z0-9+/]+={0,2}$`, sealed)
	require.NotContains(t, sealed, base64.StdEncoding.EncodeToString(value)[:8])
	opened, err := k.Open(here, sealed)
	require.NoError(t, err)
	require.Equal(t, value, opened)
	require.Equal(t, sealed, k.Seal(here, value), "what is there already is not written again")
	require.NotEqual(t, sealed, k.Seal(here, []byte("another")))
	for _, elsewhere := range []seal.Place{{"other", "gate", "tls.key"}, {"shop", "other", "tls.key"}, {"shop", "gate", "key"}} {
		require.NotEqual(t, sealed, k.Seal(elsewhere, value), "equal values in two places do not look equal")
		_, err := k.Open(elsewhere, sealed)
		require.ErrorContains(t, err, "moved here")
	}
	for i := len("pgmesh:v1:0123456789abcdef:"); i < len(sealed)-2; i++ {
		changed := []byte(sealed)
		if changed[i]++; changed[i] > 'z' {
			changed[i] = 'A'
		}
		_, err := k.Open(here, string(changed))
		require.Error(t, err, i)
	}
	_, err = k.Open(here, sealed[:40])
	require.Error(t, err)
}

func TestKeysAreChangedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	old, both, fresh := keys(t, 1), keys(t, 2, 1), keys(t, 2)
	sealed := old.Seal(here, []byte("x"))
	opened, err := both.Open(here, sealed)
	require.NoError(t, err)
	require.Equal(t, []byte("x"), opened)
	stored := map[string]string{"tls.crt": "AAAA", "tls.key": sealed}
	require.False(t, old.Stale(stored))
	require.True(t, both.Stale(stored))
	require.True(t, both.Stale(map[string]string{"tls.key": "AAAA"}))
	again, err := both.Read("shop", "gate", stored)
	require.NoError(t, err)
	require.False(t, fresh.Stale(both.Store("shop", "gate", again)))
	_, err = fresh.Open(here, sealed)
	require.ErrorContains(t, err, "which this server does not have")
	_, err = seal.None.Open(here, sealed)
	require.ErrorContains(t, err, "--secrets-key-file")
	_, err = old.Open(here, "pgmesh:v9:x")
	require.ErrorContains(t, err, "upgrade")
}

func TestCertificatesStayReadable(t *testing.T) {
	t.Parallel()
	k, data := keys(t, 1), map[string][]byte{"tls.crt": []byte("public"), "ca.crt": []byte("public"), "tls.key": []byte("private"), "other": []byte("private")}
	stored := k.Store("shop", "gate", data)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("public")), stored["tls.crt"])
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("public")), stored["ca.crt"])
	require.True(t, seal.IsSealed(stored["tls.key"]))
	require.True(t, seal.IsSealed(stored["other"]))
	read, err := k.Read("shop", "gate", stored)
	require.NoError(t, err)
	require.Equal(t, data, read)
	read, err = seal.None.Read("shop", "gate", seal.None.Store("shop", "gate", data))
	require.NoError(t, err)
	require.Equal(t, data, read)
	read, err = seal.None.Read("shop", "gate", map[string]string{"a": "cHVi\n bGlj"})
	require.NoError(t, err, "Postgres breaks the lines of base64")
	require.Equal(t, []byte("public"), read["a"])
	_, err = seal.None.Read("shop", "gate", map[string]string{"a": "planted!"})
	require.EqualError(t, err, "the value a: it is not base64")
}

func TestFilesOfKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	write := func(content string, mode os.FileMode) error {
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		_, err := seal.Load(path)
		return err
	}
	line := seal.NewLine()
	require.NoError(t, write("# of May\n"+line+"\n\n"+seal.NewLine()+"\n", 0o600))
	require.NoError(t, write(line, 0o400))
	require.ErrorContains(t, write(line, 0o640), "chmod 600")
	require.ErrorContains(t, write("# nothing\n", 0o600), "there is no key in it")
	short := write(line+"\n"+line[:20], 0o600)
	require.ErrorContains(t, short, "line 2 is not base64 of 32 bytes")
	require.NotContains(t, short.Error(), line[:10])
	require.NotEqual(t, line, seal.NewLine())
	require.Len(t, strings.TrimRight(line, "="), 43)
	_, err := seal.Load(path + ".absent")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = seal.New()
	require.Error(t, err)
	_, err = seal.New([]byte("short"))
	require.Error(t, err)
}
