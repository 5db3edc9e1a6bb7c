package problems_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

const (
	unknownHost = `VirtualService default/a: spec.http[0].route[0].destination.host: no ServiceEntry that namespace "default" can see has the host "gone.example.com" (create a ServiceEntry with this host)`
	goneEntry   = `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: gone}, spec: {hosts: [gone.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}}`
)

func TestChangesWarnOfDanglingReferences(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)

	dry := m.Pipe(clitest.VirtualService("default", "a", "gone.example.com"), "apply", "-f", "-", "--dry-run")
	require.Equal(t, "warning: "+unknownHost+"\n", dry.Err)
	require.Zero(t, dry.Code)
	require.Equal(t, dry.Err, m.Pipe(clitest.VirtualService("default", "a", "gone.example.com"), "apply", "-f", "-").Err)
	require.Empty(t, m.Pipe(goneEntry, "apply", "-f", "-").Err)
	require.Equal(t, dry.Err, m.Run("delete", "serviceentry", "gone").Err)
}

func TestStrictNamespaceRefuses(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Execute(`INSERT INTO mesh.settings (name, value, namespace) VALUES ('strict_references', 'on', 'default')`)

	for _, more := range [][]string{{}, {"--dry-run"}} {
		r := m.Pipe(clitest.VirtualService("default", "a", "gone.example.com"), append([]string{"apply", "-f", "-"}, more...)...)
		require.Equal(t, 3, r.Code, r.Err)
		require.Contains(t, r.Err, unknownHost+"\nerror: nothing was changed, because of the mistake above\n")
	}
	m.Apply(goneEntry + "\n---\n" + clitest.VirtualService("default", "a", "gone.example.com"))
	r := m.Run("delete", "serviceentry", "gone")
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, unknownHost)
	require.Equal(t, 2, m.Stored())
}

func TestProblems(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	require.Equal(t, clitest.Result{Err: "no problem found in any namespace\n"}, m.Run("problems", "-A"))
	m.Apply(clitest.VirtualService("default", "a", "gone.example.com"))

	r := m.Run("problems")
	require.Equal(t, 1, r.Code)
	require.Regexp(t, `error +unknown-host +VirtualService default/a +spec.http\[0\].route\[0\].destination.host +no ServiceEntry`, r.Out)
	require.Zero(t, m.Run("problems", "-n", "other").Code)
	for _, format := range []string{"json", "yaml"} {
		var list []map[string]string
		require.NoError(t, yaml.Unmarshal([]byte(m.Run("problems", "-A", "-o", format).Out), &list)) // JSON is YAML
		require.Len(t, list, 1)
		require.Equal(t, "unknown-host", list[0]["code"])
	}
}
