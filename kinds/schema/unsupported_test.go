package schema_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Each entry must name an existing field.
func TestUnsupportedFieldsExist(t *testing.T) {
	t.Parallel()
	for _, u := range schema.AllUnsupported() {
		require.NotEmpty(t, u.Reason, u.Path)
		for _, kind := range u.Kinds {
			at, ok := schema.Root(u.Group, kind)
			require.Truef(t, ok, "%s/%s is no kind", u.Group, kind)
			for _, step := range u.Steps() {
				if step == "*" {
					continue
				}
				i := slices.IndexFunc(at.Fields, func(f schema.Field) bool { return f.Name == step })
				require.GreaterOrEqualf(t, i, 0, "%s has no field %s (%s)", at.Name, step, u.Path)
				if ref := at.Fields[i].TypeRef; ref != "" {
					at = schema.Types()[ref]
				}
			}
		}
	}
}

// The documentation must list every entry.
func TestUnsupportedFieldsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/support.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "## What discovery does not act on\n")
	require.True(t, found)
	rows := 0
	for _, u := range schema.AllUnsupported() {
		field := "all"
		if u.Path != "" {
			field = "`" + u.Path + "`"
		}
		kinds := strings.Join(u.Kinds, ", ")
		if strings.HasSuffix(u.Group, "k8s.io") {
			kinds += " of the Gateway API"
		}
		require.Contains(t, table, "| "+kinds+" | "+field+" | "+u.Reason+" |\n")
		rows++
	}
	require.Equal(t, rows, strings.Count(table, "\n| ")-1, "docs/support.md has rows of what is on the list no more")
}

func TestFindUnsupported(t *testing.T) {
	t.Parallel()
	var spec any
	decoder := json.NewDecoder(strings.NewReader(`{"type": "ExternalHostname"}`))
	require.NoError(t, decoder.Decode(&spec))
	found := schema.FindUnsupported("gateway.networking.x-k8s.io", "XBackend", spec)
	require.Len(t, found, 1)
	require.Empty(t, found[0].Path, "the resource as a whole")
	require.Empty(t, schema.FindUnsupported("networking.istio.io", "XBackend", spec))
}

// Gateways serve these protocols, and no others.
func TestProtocolsOfListenersAreSupported(t *testing.T) {
	t.Parallel()
	for protocol, supported := range map[string]bool{"HTTP": true, "HTTPS": true, "TLS": true, "TCP": true, "UDP": true, "QUIC": false} {
		spec := map[string]any{"gatewayClassName": "pgmesh", "listeners": []any{map[string]any{"name": "a", "port": 80, "protocol": protocol}}}
		require.Equal(t, supported, len(schema.FindUnsupported("gateway.networking.k8s.io", "Gateway", spec)) == 0, protocol)
	}
}
