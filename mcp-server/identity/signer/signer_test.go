package signer_test

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/testbench/softhsm"
	"github.com/pgmesh/pgmesh/mcp-server/identity/signer"
)

// certified makes a root with an external key, and lets it sign a certificate, as a restarted
// server does.
func certified(t *testing.T, from signer.Source) *x509.Certificate {
	t.Helper()
	key, err := from.New(t.Context())
	require.NoError(t, err)
	root, err := authority.NewRootOf(key, "mesh.example", time.Hour)
	require.NoError(t, err)
	again, err := from.Of(root.Certificate())
	require.NoError(t, err)
	require.True(t, authority.Fits(again, root.Certificate()))
	own, err := authority.NewKey()
	require.NoError(t, err)
	text, err := authority.NewRequest(own)
	require.NoError(t, err)
	csr, err := authority.ParseRequest(text)
	require.NoError(t, err)
	issued, err := root.Delegate(csr, "eu-1", time.Minute)
	require.NoError(t, err)
	_, err = issued.Certificate.Verify(x509.VerifyOptions{Roots: authority.Pool(root.Certificate()), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	require.NoError(t, err)
	return root.Certificate()
}

// The module reads the variable itself: there is one token for all that follows.
func TestAKeyInATokenSigns(t *testing.T) { //nolint:paralleltest // it has variables of its own
	token := softhsm.New(t)
	name, value, _ := strings.Cut(token.Variable, "=")
	t.Setenv(name, value)
	at := func(object string) signer.Source { return signer.Source{Key: token.URI(object)} }
	first, second := at("root"), at("another")
	_, err := first.New(t.Context())
	require.ErrorContains(t, err, "the token mesh has no private key root: mcp-server authority create --generate makes one")
	require.NoError(t, first.Generate(t.Context()))
	require.ErrorContains(t, first.Generate(t.Context()), "has the key root already")
	require.NoError(t, second.Generate(t.Context()))
	require.Regexp(t, `(?s)root.*never extractable.*another.*never extractable|another.*never extractable.*root.*never extractable`, token.Tool(t, "--list-objects", "--type", "privkey"))

	root, another := certified(t, first), certified(t, second)
	require.NotEqual(t, root.PublicKey, another.PublicKey)
	_, err = first.Of(another)
	require.ErrorContains(t, err, "the signature is not that of the certificate's key")

	token.Tool(t, "--keypairgen", "--key-type", "rsa:2048", "--label", "rsa", "--id", "0a", "--usage-sign")
	certified(t, signer.Source{Key: "pkcs11:token=mesh;id=%0a?module-path=" + token.Module + "&pin-source=file:" + token.PINFile})

	require.NoError(t, os.WriteFile(token.PINFile, []byte("wrong"), 0o600))
	_, err = first.Of(root)
	require.ErrorContains(t, err, "CKR_PIN_INCORRECT")
	require.NotContains(t, err.Error(), "wrong")
}

func TestACommandSigns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for kind, options := range map[string][]string{
		"ec": {"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"}, "rsa": {"-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"},
	} {
		openssl(t, append([]string{"genpkey", "-out", in(kind + ".key")}, options...)...)
		openssl(t, "pkey", "-in", in(kind+".key"), "-pubout", "-out", in(kind+".pub"))
		script := fmt.Sprintf("#!/bin/sh -eu\n[ \"$1\" = sign ]\nexec openssl pkeyutl -sign -inkey %s -pkeyopt digest:$2\n", in(kind+".key"))
		require.NoError(t, os.WriteFile(in(kind), []byte(script), 0o700))
		certified(t, signer.Source{Command: in(kind), PublicKey: in(kind + ".pub")})
	}
	for want, from := range map[string]signer.Source{
		"the signature is not that of the certificate's key": {Command: in("ec"), PublicKey: in("rsa.pub")},
		"--authority-public-key is missing":                  {Command: in("ec")},
		"there is no public key in it":                       {Command: in("ec"), PublicKey: in("ec")},
		"cat sign: ":                                         {Command: "cat", PublicKey: in("ec.pub")},
		"write its whole path":                               {Command: "no-such-program", PublicKey: in("ec.pub")},
	} {
		_, err := from.New(t.Context())
		require.ErrorContains(t, err, want)
	}
}

func openssl(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("openssl", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestWhereAKeyIsHasToBeSaidWhole(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"pkcs11:":                                "token= is missing",
		"pkcs11:token=mesh":                      "object= and id= are missing",
		"pkcs11:token=mesh;object=root":          "module-path= is missing",
		"pkcs11:token=a;object=b?module-path=/m": "pin-source= is missing",
		"pkcs11:token=a;object=b?module-path=/m&pin-value=1234": "list of processes",
		"pkcs11:token=a;type=public":                            "it is a private key that signs",
		"pkcs11:token=a;slot-id=1":                              "slot-id= is not known here",
		"pkcs11:token=%zz":                                      "invalid URL escape",
	} {
		require.ErrorContains(t, (&signer.Source{Key: uri}).Check(), want)
	}
	require.ErrorContains(t, (&signer.Source{Key: "pkcs11:", Command: "cat"}).Check(), "exclude each other")
	require.False(t, (&signer.Source{Key: "root.key"}).External())
}

func FuzzURI(f *testing.F) {
	f.Add("pkcs11:token=mesh;object=root;id=%01?module-path=/m&pin-source=file:///p")
	f.Fuzz(func(_ *testing.T, uri string) { _ = (&signer.Source{Key: "pkcs11:" + uri}).Check() })
}
