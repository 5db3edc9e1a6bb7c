package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	unknownHost = `VirtualService default/a: spec.http[0].route[0].destination.host: no ServiceEntry that namespace "default" can see has the host "gone.example.com" (create a ServiceEntry with this host)`
	goneEntry   = `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: gone}, spec: {hosts: [gone.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}}`
)

func TestChangesWarnOfDanglingReferences(t *testing.T) {
	t.Parallel()
	m := start(t)

	dry := m.pipe(virtualService("default", "a", "gone.example.com"), "apply", "-f", "-", "--dry-run")
	require.Equal(t, "warning: "+unknownHost+"\n", dry.err)
	require.Zero(t, dry.code)
	require.Equal(t, dry.err, m.pipe(virtualService("default", "a", "gone.example.com"), "apply", "-f", "-").err)
	require.Empty(t, m.pipe(goneEntry, "apply", "-f", "-").err)
	require.Equal(t, dry.err, m.run("delete", "serviceentry", "gone").err)
}

func TestStrictNamespaceRefuses(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.execute(`INSERT INTO mesh.settings (name, value, namespace) VALUES ('strict_references', 'on', 'default')`)

	for _, more := range [][]string{{}, {"--dry-run"}} {
		r := m.pipe(virtualService("default", "a", "gone.example.com"), append([]string{"apply", "-f", "-"}, more...)...)
		require.Equal(t, 3, r.code, r.err)
		require.Contains(t, r.err, unknownHost+"\nerror: nothing was changed, because of the mistake above\n")
	}
	m.apply(goneEntry + "\n---\n" + virtualService("default", "a", "gone.example.com"))
	r := m.run("delete", "serviceentry", "gone")
	require.Equal(t, 3, r.code)
	require.Contains(t, r.err, unknownHost)
	require.Equal(t, 2, m.stored())
}

func TestProblems(t *testing.T) {
	t.Parallel()
	m := start(t)
	require.Equal(t, result{err: "no problem found in any namespace\n"}, m.run("problems", "-A"))
	m.apply(virtualService("default", "a", "gone.example.com"))

	r := m.run("problems")
	require.Equal(t, 1, r.code)
	require.Regexp(t, `error +unknown-host +VirtualService default/a +spec.http\[0\].route\[0\].destination.host +no ServiceEntry`, r.out)
	require.Zero(t, m.run("problems", "-n", "other").code)
	for _, format := range []string{"json", "yaml"} {
		var list []map[string]string
		require.NoError(t, yaml.Unmarshal([]byte(m.run("problems", "-A", "-o", format).out), &list)) // JSON is YAML
		require.Len(t, list, 1)
		require.Equal(t, "unknown-host", list[0]["code"])
	}
}
