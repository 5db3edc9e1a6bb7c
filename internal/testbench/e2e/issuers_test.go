package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cloud gives machines JSON web tokens, with which they join the mesh.
type cloud struct {
	*secureMesh
	*signer
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{newSecureMesh(t, nil), newSigner(t, "https://accounts.cloud.example")}
	keys := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(keys, []byte(c.keys()), 0o600))
	out, err := c.Client(t.Context(), "", "issuer", "create", "cloud-shop", "--issuer", c.issuer, "--audience", "pgmesh", "--jwks", keys,
		"--claim", "instance.project=shop-1", "--identity", "shop/cart")
	require.NoError(t, err, out)
	return c
}

// instance is a token for a machine of the project, with some claims replaced.
func (c *cloud) instance(subject string, others map[string]any) string {
	claims := map[string]any{"sub": subject, "aud": "pgmesh", "instance": map[string]any{"project": "shop-1"}}
	maps.Copy(claims, others)
	return c.signer.token(claims)
}

// joins tries to make a machine a member with a token, and returns the command's output.
func (c *cloud) joins(token, state string, flags ...string) (string, error) {
	c.secureMesh.t.Helper()
	file := filepath.Join(c.secureMesh.t.TempDir(), "token.jwt")
	require.NoError(c.secureMesh.t, os.WriteFile(file, []byte(token), 0o600))
	return c.Run(c.secureMesh.t.Context(), "mesh-agent", append([]string{"join", "--server", c.XDS, "--jwt-file", file, "--roots", c.Roots(), "--state-dir", state}, flags...)...)
}

// member makes a machine a member as soon as discovery knows the issuer.
func (c *cloud) member(t *testing.T, subject, state string, flags ...string) (enrolment string) {
	t.Helper()
	c.comesTo(t, subject, state, "spiffe://cluster.local/ns/shop/sa/cart", flags...)
	leaf := leafOf(c.secureMesh, read(t, state, "identity.pem"))
	require.Equal(t, "spiffe://cluster.local/ns/shop/sa/cart", leaf.URIs[0].String())
	c.recorded(1, "enrolment = $1 AND serial = $2 AND credential = 'jwt' AND refusal IS NULL", leaf.Subject.SerialNumber, leaf.SerialNumber.Text(16))
	return leaf.Subject.SerialNumber
}

// comesTo has a machine try to join until the answer contains a text.
func (c *cloud) comesTo(t *testing.T, subject, state, told string, flags ...string) {
	t.Helper()
	token := c.instance(subject, nil)
	eventually(t, func(context.Context) error {
		out, err := c.joins(token, state, flags...)
		if !strings.Contains(out, told) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func TestMachinesJoinByTheTokensOfAnIssuer(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	machine, another := t.TempDir(), t.TempDir()
	enrolment := c.member(t, "i-1", machine)
	require.NotEqual(t, enrolment, c.member(t, "i-2", another))

	// The same machine with another token, and another key, is the same member.
	key := leafOf(c.secureMesh, read(t, machine, "identity.pem")).PublicKey
	require.Equal(t, enrolment, c.member(t, "i-1", machine, "--again"))
	require.NotEqual(t, key, leafOf(c.secureMesh, read(t, machine, "identity.pem")).PublicKey)

	impostor := newSigner(t, c.issuer)
	impostor.kid = c.kid
	for name, is := range map[string]struct{ token, refusal, says string }{
		"tampered":        {tampered(c.instance("ada", nil)), "jwt_signature", "was not signed by any key of https://accounts.cloud.example"},
		"of an impostor":  {impostor.token(map[string]any{"sub": "i-1", "aud": "pgmesh"}), "jwt_signature", "was not signed by any key of https://accounts.cloud.example"},
		"of others":       {newSigner(t, "https://accounts.other.example").token(map[string]any{"aud": "pgmesh"}), "jwt_issuer", `no rule is about JSON web tokens of the issuer .*other.example`},
		"expired":         {c.instance("i-1", map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "jwt_expired", "has expired at .*: get a new one"},
		"not yet":         {c.instance("i-1", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "jwt_expired", "is not valid yet"},
		"for others":      {c.instance("i-1", map[string]any{"aud": "bank"}), "jwt_audience", "is for .*bank.*have one made for that audience"},
		"of a stranger":   {c.instance("i-1", map[string]any{"instance": map[string]any{"project": "bank-1"}}), "jwt_claims", "the claim instance.project .* is not .*shop-1"},
		"of no project":   {c.instance("i-1", map[string]any{"instance": "shop-1"}), "jwt_claims", "the claim instance.project"},
		"without subject": {c.instance("", nil), "jwt_claims", "it has to have sub"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			out, err := c.joins(is.token, state)
			require.Error(t, err)
			require.Regexp(t, is.says, out)
			require.NotContains(t, out, is.token)
			require.NoFileExists(t, filepath.Join(state, "identity.pem"))
			says(t, c.Discovery.Log, "refused.*"+is.refusal+".*"+is.says)
			c.recorded(1, "refusal = $1 AND detail ~ $2 AND enrolment = '' AND serial = ''", is.refusal, is.says)
		})
	}
}

// A revoked machine does not become another one with a new token.
func TestARevokedMachineStaysRevokedWhateverTokensItGets(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	state := t.TempDir()
	enrolment := c.member(t, "i-1", state)
	c.identity("revoke", enrolment, "--reason", "the instance was broken into")
	c.comesTo(t, "i-1", t.TempDir(), "the instance was broken into", "--again")
	c.recorded(1, "refusal = 'revoked' AND credential = 'jwt' AND enrolment = $1", enrolment)
	c.member(t, "i-2", t.TempDir())
	c.identity("restore", enrolment)
	require.Equal(t, enrolment, c.member(t, "i-1", state, "--again"))
}
