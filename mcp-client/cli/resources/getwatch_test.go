package resources_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// Rows that come later stand under the titles, and what is longer widens the columns from then on.
func TestGetGoesOnInColumns(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "reviews", "v1"))
	w := m.Follow("get", "vs", "-w", "-A")
	next := func() string { return w.Lines(w.Out, 1)[0] }
	titles, first := next(), next()
	gateways := strings.Index(titles, "GATEWAYS")
	require.Equal(t, gateways, strings.Index(first, "mesh"))
	m.Apply(clitest.VirtualService("prod", "a", "v1"))
	require.Equal(t, gateways, strings.Index(next(), "mesh"))
	m.Apply(clitest.VirtualService("prod", "reviews-of-the-year", "v1"))
	wider := strings.Index(next(), "mesh")
	require.Greater(t, wider, gateways)
	m.Apply(clitest.VirtualService("prod", "b", "v1"))
	require.Equal(t, wider, strings.Index(next(), "mesh"))

	columns := m.Follow("get", "vs", "-w", "-A", "-o", "custom-columns=NAME:.metadata.name,HOST:.spec.hosts[0]")
	require.Equal(t, []string{
		"NAME                  HOST", "reviews               reviews.example.com", "a                     a.example.com",
		"b                     b.example.com", "reviews-of-the-year   reviews-of-the-year.example.com",
	}, columns.Lines(columns.Out, 5))
	m.Apply(clitest.VirtualService("prod", "c", "v1"))
	require.Equal(t, "c                     c.example.com", columns.Lines(columns.Out, 1)[0])
}

// A table has its titles once there is something in it, and names say of which kind they are if there are several.
func TestGetGoesOnWithATableOfEachKind(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	w := m.Follow("get", "vs,dr", "-w")
	require.Equal(t, []string{"nothing found in namespace default"}, w.Lines(w.Err, 1))
	next := func() string { return ages.ReplaceAllString(w.Lines(w.Out, 1)[0], "<age>") }
	m.Apply(clitest.VirtualService("default", "a", "v1"))
	require.Equal(t, "NAMESPACE   NAME   GATEWAYS   HOSTS           AGE", next())
	require.Equal(t, "default     a      mesh       a.example.com   <age>", next())
	m.Apply("{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a}, spec: {host: a}}\n")
	require.Empty(t, next())
	require.Equal(t, "NAMESPACE   NAME                HOST   SUBSETS   AGE", next())
	require.Equal(t, "default     destinationrule/a   a      -         <age>", next())
	m.Apply(clitest.VirtualService("default", "b", "v1"))
	require.Equal(t, "default     virtualservice/b   mesh       b.example.com   <age>", next())
}
