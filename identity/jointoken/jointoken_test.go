package jointoken_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/jointoken"
)

func root(key string) *x509.Certificate {
	return &x509.Certificate{RawSubjectPublicKeyInfo: []byte(key)}
}

func TestParseReadsWhatTextWrites(t *testing.T) {
	t.Parallel()
	made, err := jointoken.New(root("old"), root("new"))
	require.NoError(t, err)
	read, err := jointoken.Parse(made.Text() + "\n")
	require.NoError(t, err)
	require.Equal(t, made.Hash(), read.Hash())
	require.True(t, read.Trusts(root("old")) && read.Trusts(root("new")))
	require.False(t, read.Trusts(root("another")))
	other, err := jointoken.New(root("old"))
	require.NoError(t, err)
	require.NotEqual(t, made.Hash(), other.Hash())
	_, err = jointoken.New()
	require.Error(t, err)
}

func TestTokensAreNotPrinted(t *testing.T) {
	t.Parallel()
	made, err := jointoken.New(root("old"))
	require.NoError(t, err)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "token", made)
	for _, shown := range []string{fmt.Sprint(made), fmt.Sprintf("%v %+v %#v %s %q", made, made, made, made, made), log.String()} {
		require.NotContains(t, shown, made.Text()[len(jointoken.Prefix):len(jointoken.Prefix)+8])
	}
}

func FuzzParse(f *testing.F) {
	made, err := jointoken.New(root("a"))
	require.NoError(f, err)
	for _, seed := range []string{"", jointoken.Prefix, made.Text(), made.Text()[:60], made.Text() + "=", "pgmesh_" + made.Text()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, err := jointoken.Parse(text)
		if err != nil {
			if len(text) > 20 {
				require.NotContains(t, err.Error(), text)
			}
			return
		}
		again, err := jointoken.Parse(read.Text())
		require.NoError(t, err)
		require.Equal(t, read, again)
	})
}
