package resources_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// What is chosen by labels, or is all of a kind, is labelled, annotated and waited for as it is deleted.
func TestResourcesAreChosenForEachCommand(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "a", "a") + clitest.Separator + clitest.VirtualService("default", "b", "b") + clitest.Separator + clitest.VirtualService("other", "c", "c"))
	require.Equal(t, "virtualservice default/a configured\nvirtualservice default/b configured\nrevision 2\n", m.OK("label", "vs", "--all", "tier=front"))
	m.OK("label", "vs/a", "zone=x")
	require.Contains(t, m.OK("label", "vs", "-l", "zone=x", "tier-"), "virtualservice default/a configured\nrevision")
	require.Contains(t, m.OK("annotate", "vs", "-l", "tier=front", "example.com/owner=shop"), "virtualservice default/b configured\nrevision")
	require.Equal(t, "virtualservice default/a condition met\nvirtualservice default/b condition met\n", m.OK("wait", "vs", "--all", "--for=create"))
	require.Equal(t, "virtualservice default/b condition met\n", m.OK("wait", "vs", "-l", "tier", "--for=create"))
	none := m.Run("label", "vs", "-l", "app=nobody", "x=y")
	require.Equal(t, clitest.Result{Err: "nothing found in namespace default\n"}, none)
	for _, args := range [][]string{
		{"label", "vs/a", "--all", "x=y"}, {"label", "vs", "--all", "-l", "app", "x=y"}, {"label", "all", "--all", "x=y"}, {"label", "vs", "x=y"}, {"wait", "vs/a", "-l", "app", "--for=create"},
	} {
		require.Equal(t, 2, m.Run(args...).Code, args)
	}

	table := m.OK("get", "vs", "-L", "zone,tier")
	require.Regexp(t, `(?m)^NAMESPACE .* AGE +ZONE +TIER$`, table)
	require.Regexp(t, `(?m)^default +a .* x *$`, table)
	require.Regexp(t, `(?m)^default +b .* front$`, table)
	require.Equal(t, clitest.Result{}, m.Run("get", "vs", "gone", "--ignore-not-found", "-o", "yaml"))
	require.Equal(t, clitest.Result{Out: "VirtualService\n"}, m.Run("get", "vs", "a", "gone", "--ignore-not-found", "-o", "custom-columns=:kind"))
	require.Equal(t, "a\nb\n", m.OK("get", "vs", "-o", "custom-columns=:metadata.name"))
}
