package inspect_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// The names on the pages are an interface. Each is explained in the docs.
func TestEveryNameIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/debugging.md")
	require.NoError(t, err)
	text := string(page)
	b := start(t)
	b.apply(web)
	p, slow := b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType, push.EndpointType), b.connect(node("sidecar", "10.0.0.2", "vm-2"), push.ClusterType)
	p.accept(2)
	slow.receive()
	b.apply(timeout)
	p.nack(p.receive(), "no")
	eventually(b, "/debug/push", func(q queue) bool { return len(q.Behind) == 2 && q.Pushes[0].Nacks == 1 })

	for _, path := range []string{"/debug/proxies", "/debug/clusters?proxy=vm-1", "/debug/authorization?proxy=vm-1", "/debug/push", "/debug/classes"} {
		name, _, _ := strings.Cut(path, "?")
		require.Contains(t, text, "### "+name)
		for key := range keysOf(shown[any](b, path), map[string]bool{}) {
			require.Regexp(t, "`"+key+"`|\""+key+"\":", text, "%s of %s", key, path)
		}
	}
}

// keysOf collects the names of fields.
func keysOf(tree any, into map[string]bool) map[string]bool {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			into[key] = true
			keysOf(value, into)
		}
	case []any:
		for _, value := range tree {
			keysOf(value, into)
		}
	case json.Number, string, bool, float64, nil:
	}
	return into
}
