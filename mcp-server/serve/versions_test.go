package serve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// current asks a server for all service entries, and returns their versions.
func current(t *testing.T, open func(string) *xds, address string) map[string]string {
	t.Helper()
	x := open(address)
	x.ask(serviceEntries)
	return versions(t, x.next(serviceEntries))
}

// Istiod skips what has the version that it has: a version that stays while the content changes
// loses a change, and one that changes while the content stays makes work for every proxy.
func TestAVersionChangesIfAndOnlyIfTheContentDoes(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, open func(string) *xds) {
		database := pgtest.New(t)
		write(t, database, "a", "a.example")
		write(t, database, "b", "b.example")
		server := launch(t, serve.Options{Database: database})
		address := server.MCP.String()
		at := func(revision string) map[string]string {
			revised(t, address, revision)
			return current(t, open, address)
		}
		begun := at("2")
		seen := map[string]bool{begun["default/a"]: true}
		for _, step := range []struct{ revision, change string }{
			{"3", `UPDATE mesh.resources SET spec = jsonb_set(spec, '{hosts, 0}', '"c.example"') WHERE name = 'a'`},
			{"4", `UPDATE mesh.resources SET labels = '{"app": "a"}' WHERE name = 'a'`},
			{"5", `UPDATE mesh.resources SET labels = '{}', annotations = '{"app": "a"}' WHERE name = 'a'`},
		} {
			execute(t, database, step.change)
			now := at(step.revision)
			require.NotContains(t, seen, now["default/a"], step.change)
			require.Equal(t, begun["default/b"], now["default/b"], step.change)
			seen[now["default/a"]] = true
		}
		execute(t, database, `UPDATE mesh.resources SET annotations = '{}', spec = jsonb_set(spec, '{hosts, 0}', '"a.example"') WHERE name = 'a'`)
		require.Equal(t, begun, at("6"), "what is as it was has the version that it had")

		replica := launch(t, serve.Options{Database: database})
		require.Equal(t, begun, current(t, open, replica.MCP.String()))
		server.end()
		require.Equal(t, begun, current(t, open, launch(t, serve.Options{Database: database, Listen: address}).MCP.String()))
	})
}

// A delta client that says what it has is sent what differs, by whichever server.
func TestAClientThatSaysWhatItHasIsSentWhatDiffers(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	write(t, database, "a", "a.example")
	write(t, database, "b", "b.example")
	one, two := launch(t, serve.Options{Database: database}), launch(t, serve.Options{Database: database})
	has := current(t, func(a string) *xds { return openDelta(t, a) }, one.MCP.String())
	x := openDelta(t, two.MCP.String())
	x.say(said{typeURL: serviceEntries, held: has})
	same := x.next(serviceEntries)
	require.Empty(t, same.bodies, "and yet it is answered")
	require.Empty(t, same.removed)

	has["default/gone"] = has["default/a"]
	has["default/b"] = "another"
	x = openDelta(t, one.MCP.String())
	x.say(said{typeURL: serviceEntries, held: has})
	different := x.next(serviceEntries)
	require.Equal(t, []string{"default/b"}, different.names)
	require.Equal(t, []string{"default/gone"}, different.removed)
}
