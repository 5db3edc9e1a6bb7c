package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	m := start(t)
	created := m.run("token", "create", "ci", "--scope", "write:shop:vs,dr", "--scope", "read", "--expires-in", "12h")
	require.Zero(t, created.code, created.err)
	secret := strings.TrimSpace(created.out)
	require.True(t, strings.HasPrefix(secret, "pgmesh_"))
	require.Contains(t, created.err, "made the token ci (write:shop:DestinationRule,VirtualService, read), valid until ")
	require.NotContains(t, created.err, secret)

	require.Zero(t, m.run("get", "vs", "--token", secret).code)
	denied := m.run("token", "list", "--token", secret)
	require.Equal(t, 5, denied.code)
	require.Contains(t, denied.err, "token:ci may not administer who else may call: it has the scopes write:shop:DestinationRule,VirtualService, read")

	list := m.ok("token", "list")
	require.Regexp(t, `^NAME +STATE +SCOPES +EXPIRES +LAST USED\nci +in force +write:shop:DestinationRule,VirtualService read +\d{4}-\S+Z +-\n$`, list)
	require.NotContains(t, list, secret)
	require.Equal(t, "ci\n", m.ok("token", "list", "-o", "name"))
	var made struct {
		Name, Secret, ExpiresAt string
		Scopes                  []string
	}
	require.NoError(t, json.Unmarshal([]byte(m.ok("token", "create", "for-ever", "--scope", "admin", "--expires-in", "0", "-o", "json")), &made))
	require.Equal(t, []string{"for-ever", "", "admin"}, []string{made.Name, made.ExpiresAt, made.Scopes[0]})
	require.Zero(t, m.run("token", "list", "--token", made.Secret).code)

	require.Equal(t, "revoked ci\n", m.ok("token", "revoke", "ci"))
	revoked := m.run("get", "vs", "--token", secret)
	require.Equal(t, 5, revoked.code)
	require.Contains(t, revoked.err, `the token "ci" was revoked at`)
	require.NotContains(t, revoked.err, secret)
	require.Contains(t, m.ok("token", "list", "-o", "wide"), "revoked")
	again := m.run("token", "revoke", "ci")
	require.Equal(t, 1, again.code)
	require.Contains(t, again.err, `there is no token "ci" in force`)
}

func TestInvalidTokensAreRefused(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.ok("token", "create", "ci", "--scope", "read")
	for says, tt := range map[string]struct {
		code int
		args []string
	}{
		`there is no scope; write what may be done`:       {2, []string{"token", "create", "a"}},
		`"delete" is not what one may do`:                 {2, []string{"token", "create", "a", "--scope", "delete"}},
		`unknown kind "virtualservise"`:                   {2, []string{"token", "create", "a", "--scope", "read:*:virtualservise"}},
		`--expires-in must not be negative`:               {2, []string{"token", "create", "a", "--scope", "read", "--expires-in", "-1h"}},
		`'A' is not a name for a token`:                   {1, []string{"token", "create", "A", "--scope", "read"}},
		`there is a token of that name already: "ci"`:     {1, []string{"token", "create", "ci", "--scope", "read"}},
		`unknown command "craete" (did you mean "create"`: {2, []string{"token", "craete"}},
	} {
		r := m.run(tt.args...)
		require.Equal(t, tt.code, r.code, r.err)
		require.Contains(t, r.err, says)
		require.Empty(t, r.out)
	}
}

func TestTokenExpiry(t *testing.T) {
	t.Parallel()
	m := start(t)
	secret := strings.TrimSpace(m.ok("token", "create", "brief", "--scope", "read", "--expires-in", "1500ms"))
	require.Zero(t, m.run("get", "vs", "--token", secret).code)
	require.Eventually(t, func() bool {
		r := m.run("get", "vs", "--token", secret)
		return r.code == 5 && strings.Contains(r.err, `the token "brief" has expired`)
	}, 20*time.Second, 50*time.Millisecond) // by the clock
	require.Contains(t, m.ok("token", "list"), "expired")
}
