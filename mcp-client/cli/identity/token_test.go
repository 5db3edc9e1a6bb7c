package identity_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	created := m.Run("token", "create", "ci", "--scope", "write:shop:vs,dr", "--scope", "read", "--expires-in", "90d")
	require.Zero(t, created.Code, created.Err)
	secret := strings.TrimSpace(created.Out)
	require.True(t, strings.HasPrefix(secret, "pgmesh_"))
	until := regexp.MustCompile(`^made the token ci \(write:shop:DestinationRule,VirtualService, read\), valid until (\S+)\. `).FindStringSubmatch(created.Err)
	require.Len(t, until, 2, created.Err)
	expires, err := time.Parse(time.RFC3339, until[1])
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(90*24*time.Hour), expires, time.Hour)
	require.NotContains(t, created.Err, secret)

	require.Zero(t, m.Run("get", "vs", "--token", secret).Code)
	denied := m.Run("token", "list", "--token", secret)
	require.Equal(t, 5, denied.Code)
	require.Contains(t, denied.Err, "token:ci may not administer who else may call: it has the scopes write:shop:DestinationRule,VirtualService, read")

	list := m.OK("token", "list")
	require.Regexp(t, `^NAME +STATE +SCOPES +EXPIRES +LAST USED\nci +in force +write:shop:DestinationRule,VirtualService read +\d{4}-\S+Z +-\n$`, list)
	require.NotContains(t, list, secret)
	require.Equal(t, "ci\n", m.OK("token", "list", "-o", "name"))
	var made struct {
		Name, Secret, ExpiresAt string
		Scopes                  []string
	}
	require.NoError(t, json.Unmarshal([]byte(m.OK("token", "create", "for-ever", "--scope", "admin", "--expires-in", "0", "-o", "json")), &made))
	require.Equal(t, []string{"for-ever", "", "admin"}, []string{made.Name, made.ExpiresAt, made.Scopes[0]})
	require.Zero(t, m.Run("token", "list", "--token", made.Secret).Code)

	require.Equal(t, "revoked ci\n", m.OK("token", "revoke", "ci"))
	revoked := m.Run("get", "vs", "--token", secret)
	require.Equal(t, 5, revoked.Code)
	require.Contains(t, revoked.Err, `the token "ci" was revoked at`)
	require.NotContains(t, revoked.Err, secret)
	require.Contains(t, m.OK("token", "list", "-o", "wide"), "revoked")
	again := m.Run("token", "revoke", "ci")
	require.Equal(t, 1, again.Code)
	require.Contains(t, again.Err, `there is no token "ci" in force`)
}

func TestInvalidTokensAreRefused(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.OK("token", "create", "ci", "--scope", "read")
	for says, tt := range map[string]struct {
		code int
		args []string
	}{
		`there is no scope; write what may be done`:                       {2, []string{"token", "create", "a"}},
		`"delete" is not what one may do`:                                 {2, []string{"token", "create", "a", "--scope", "delete"}},
		`unknown kind "virtualservise"`:                                   {2, []string{"token", "create", "a", "--scope", "read:*:virtualservise"}},
		`"90x" is not a time with its unit, such as 30m, 12h or 90d (see`: {2, []string{"token", "create", "a", "--scope", "read", "--expires-in", "90x"}},
		`--expires-in must not be negative`:                               {2, []string{"token", "create", "a", "--scope", "read", "--expires-in", "-1h"}},
		`'A' is not a name for a token`:                                   {1, []string{"token", "create", "A", "--scope", "read"}},
		`there is a token of that name already: "ci"`:                     {1, []string{"token", "create", "ci", "--scope", "read"}},
		`unknown command "craete" (did you mean "create"`:                 {2, []string{"token", "craete"}},
	} {
		r := m.Run(tt.args...)
		require.Equal(t, tt.code, r.Code, r.Err)
		require.Contains(t, r.Err, says)
		require.Empty(t, r.Out)
	}
}

func TestTokenExpiry(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	secret := strings.TrimSpace(m.OK("token", "create", "brief", "--scope", "read", "--expires-in", "1500ms"))
	require.Zero(t, m.Run("get", "vs", "--token", secret).Code)
	require.Eventually(t, func() bool {
		r := m.Run("get", "vs", "--token", secret)
		return r.Code == 5 && strings.Contains(r.Err, `the token "brief" has expired`)
	}, 20*time.Second, 50*time.Millisecond) // by the clock
	require.Contains(t, m.OK("token", "list"), "expired")
}
