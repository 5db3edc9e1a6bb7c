package identity_test

import (
	"path/filepath"
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
	require.Equal(t, "yes\n", m.OK("auth", "can-i", "*", "*", "-A"))
	require.Equal(t, "no\n", as("auth", "can-i", "*", "*", "-n", "shop").Out)
	require.Equal(t, "no\n", as("auth", "can-i", "get", "*", "-n", "bank").Out)
	require.Equal(t, clitest.Result{}, as("auth", "can-i", "create", "vs", "-n", "shop", "-q"))
	require.Equal(t, clitest.Result{Code: 1}, as("auth", "can-i", "create", "vs", "-n", "bank", "-q"))
	listed := as("auth", "can-i", "--list").Out
	require.Regexp(t, `(?m)\AVERB +KINDS +NAMESPACES +WHICH IS\nwrite +\* +shop +get, list, watch, create.*\nread +VirtualService +bank +get, list, watch\n\z`, listed)
	require.NotContains(t, as("auth", "can-i", "--list", "-n", "bank").Out, "shop")
	require.Equal(t, "write:shop\nread:bank:VirtualService\n", as("auth", "can-i", "--list", "-o", "name").Out)
	require.JSONEq(t, `[{"verb": "admin", "namespaces": [], "kinds": []}]`, m.OK("auth", "can-i", "--list", "-o", "json"))
	require.Equal(t, 2, as("auth", "can-i", "--list", "vs").Code)
	r := as("auth", "can-i", "get", "vs", "--as", "bob")
	require.Equal(t, 2, r.Code)
	require.Contains(t, r.Err, "nobody can ask in the name of another: ask with their token (--token-file FILE)")

	// What somebody may not read looks as if there were nothing, unless one is told.
	m.Apply(clitest.VirtualService("prod", "reviews", "v1"))
	for _, args := range [][]string{{"get", "vs", "-n", "prod"}, {"get", "vs", "-A"}, {"export", "--kind", "vs"}, {"services", "-A"}, {"namespaces"}, {"snapshot", "save", filepath.Join(t.TempDir(), "saved")}} {
		require.Contains(t, as(args...).Err, "warning: you may not read everything", args)
	}
	require.Contains(t, as("get", "vs", "-n", "prod").Err, "in the namespace prod, and what you may not read is left out here (you may: write:shop, read:bank:VirtualService)")
	require.NotContains(t, as("get", "vs", "-n", "shop").Err, "warning")
	require.NotContains(t, as("get", "vs", "-n", "bank").Err, "warning")
	require.Contains(t, as("get", "dr", "-n", "bank").Err, "warning")
	require.NotContains(t, m.Run("get", "vs", "-A").Err, "warning", "nothing is kept from this caller")
	require.Equal(t, 2, as("auth", "can-i", "get", "nothing").Code)
	require.Equal(t, 2, as("auth", "may-i").Code)
}
