package identity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestWhoAmIAndWhatMayIDo(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	require.Equal(t, clitest.Result{Out: "insecure\nmay: admin\n"}, m.Run("whoami"))
	require.Equal(t, `["admin"]`, m.OK("whoami", "-o", "jsonpath={.scopes}"))
	require.Equal(t, clitest.Result{Out: "yes\n"}, m.Run("auth", "can-i", "delete", "vs/x", "-A"))

	m.OK("token", "create", "shop", "--scope", "write:shop", "--scope", "read:bank:vs")
	token := m.OK("token", "create", "again", "--scope", "write:shop", "--scope", "read:bank:vs")
	as := func(args ...string) clitest.Result {
		t.Helper()
		return m.Run(append(args, "--token", token[:len(token)-1])...)
	}
	require.Equal(t, "token:again\nmay: write:shop, read:bank:VirtualService\n", as("whoami").Out)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"yes", []string{"create", "vs", "-n", "shop"}},
		{"yes", []string{"get", "vs", "-n", "bank"}},
		{"no", []string{"get", "dr", "-n", "bank"}},
		{"no", []string{"patch", "vs", "-n", "bank"}},
		{"no", []string{"get", "vs", "-A"}},
		{"no", []string{"get", "secrets", "-n", "shop"}},
		{"no", []string{"*", "vs", "-n", "shop"}},
	} {
		r := as(append([]string{"auth", "can-i"}, c.args...)...)
		require.Equal(t, c.says+"\n", r.Out, c.args)
		require.Equal(t, c.says == "no", r.Code == 1, c.args)
	}
	require.Equal(t, 2, as("auth", "can-i", "fly", "vs").Code)
	require.Equal(t, 2, as("auth", "can-i", "get", "nothing").Code)
	require.Equal(t, 2, as("auth", "may-i").Code)
}
