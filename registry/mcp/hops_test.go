package mcp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

func registries(urls ...string) serve.Registries {
	return serve.Registries{URLs: urls, Wait: 100 * time.Millisecond}
}

// has waits until some are there, whatever is away.
func has(t *testing.T, w *registrytest.Watcher, names ...string) {
	t.Helper()
	w.Until(t, "there are these", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return w.All[name] == nil })
	})
}

// A bridge that has nothing saved and starts while a registry of its own is away serves the rest. What
// it had of that registry stays, at whoever follows it, and who follows that, whoever is restarted.
func TestNothingGoesBecauseARegistryTwoHopsAwayCannotBeAsked(t *testing.T) {
	t.Parallel()
	in, sound := newInventory(t), newInventory(t)
	in.register("web", one("10.0.0.1"))
	in.register("old", one("10.0.0.2"))
	sound.register("steady", one("10.0.0.3"))
	bridge := run(t, serve.Options{Registries: registries(in.url("inventory"), sound.url("sound"))})
	middle := run(t, serve.Options{Registries: serve.Registries{URLs: []string{"mcp://" + bridge.address + "?insecure=true&name=bridge"}}, StateDir: t.TempDir()})
	w := watch(t, middle.address, "insecure=true")
	w.UntilThere(t, "mcp.bridge.inventory.web", "mcp.bridge.inventory.old", "mcp.bridge.sound.steady")
	require.Equal(t, "bridge/inventory/web.yaml", w.All["mcp.bridge.inventory.web"].Annotations[kinds.OriginEntryAnnotation])

	in.away()
	w.UntilAway(t, "its registry bridge is as it was at ", "mcp.bridge.inventory.web", "mcp.bridge.inventory.old", "mcp.bridge.sound.steady")
	bridge.restart()
	sound.register("fresh", one("10.0.0.4"))
	has(t, w, "mcp.bridge.sound.fresh", "mcp.bridge.inventory.web", "mcp.bridge.inventory.old")
	middle.untilReady("the registry bridge is as it was at ")
	middle.restart()
	sound.register("more", one("10.0.0.5"))
	has(t, w, "mcp.bridge.sound.more", "mcp.bridge.inventory.web", "mcp.bridge.inventory.old")
	middle.untilReady("its registry inventory ")
	has(t, watch(t, middle.address, "insecure=true"), "mcp.bridge.inventory.web", "mcp.bridge.inventory.old", "mcp.bridge.sound.more")

	in.deregister("old", "10.0.0.2")
	in.back()
	w.UntilThere(t, "mcp.bridge.inventory.web", "mcp.bridge.sound.steady", "mcp.bridge.sound.fresh", "mcp.bridge.sound.more")
	middle.untilSound()
}

// What the database of a server has beside what a bridge has is in SQL, with where it comes from.
func TestSQLShowsWhatABridgeHas(t *testing.T) {
	t.Parallel()
	in := newInventory(t)
	in.register("web", one("10.0.0.1"))
	bridge := run(t, serve.Options{Registries: registries(in.url("inventory"))})
	database := pgtest.New(t)
	run(t, serve.Options{Database: database, Registries: serve.Registries{URLs: []string{"mcp://" + bridge.address + "?insecure=true&name=bridge"}}})
	shown := func() string {
		return query(t, database, `SELECT coalesce(string_agg(s.origin || ' ' || s.entry || ' ' || e.address || ' ' || s.in_effect || ' ' || (s.stale_since IS NULL), ', '), '')
			FROM mesh.services s JOIN mesh.endpoints e USING (host, namespace, name) WHERE s.host = 'web.example.com'`)
	}
	require.Eventually(t, func() bool { return shown() == "bridge inventory/web.yaml 10.0.0.1 true true" }, 20*time.Second, 20*time.Millisecond)
	in.away()
	require.Eventually(t, func() bool { return shown() == "bridge inventory/web.yaml 10.0.0.1 true false" }, 20*time.Second, 20*time.Millisecond)
	require.Contains(t, query(t, database, `SELECT string_agg(message, ', ') FROM mesh.problems WHERE code = 'stale-registry'`), "inventory")
}

// newMesh is the database of a mesh of its own: those of tests are copies of one.
func newMesh(t *testing.T) string {
	t.Helper()
	database := pgtest.New(t)
	execute(t, database, "UPDATE mesh_internal.installation SET secret = gen_random_uuid()")
	return database
}

func query(t *testing.T, database, sql string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&text))
	return text
}

func execute(t *testing.T, database, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestAServerThatFollowsItselfIsToldSo(t *testing.T) {
	t.Parallel()
	in, address := newInventory(t), newAddress(t)
	in.register("web", one("10.0.0.1"))
	own := run(t, serve.Options{Listen: address, Registries: registries(in.url("inventory"), "mcp://"+address+"?insecure=true&name=own")})
	own.untilReady("serving without the registry own, which was never read: it is this server, or one that gets what it serves from this one: leave it out of --registry")
	w := watch(t, address, "insecure=true")
	has(t, w, "mcp.inventory.web")
	in.register("more", one("10.0.0.1"))
	has(t, w, "mcp.inventory.more")
	w.RequireThere(t, "mcp.inventory.web", "mcp.inventory.more")
}

func TestAServerDoesNotFollowItsOwnMesh(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	first := run(t, serve.Options{Database: database})
	second := run(t, serve.Options{Database: database, Registries: registries("mcp://" + first.address + "?insecure=true&name=own")})
	second.untilReady("serving without the registry own, which was never read: it serves this mesh itself")
}

// Each has what the other has of its own, and not what that has from here.
func TestTwoServersCanFollowEachOther(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func() serve.Options{
		"bridges":           func() serve.Options { return serve.Options{} },
		"servers of meshes": func() serve.Options { return serve.Options{Database: newMesh(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := []string{newAddress(t), newAddress(t)}
			in := []*inventory{newInventory(t), newInventory(t)}
			var both []*server
			for i := range at {
				o := source()
				o.Listen, o.Registries = at[i], registries(in[i].url("inventory"), "mcp://"+at[1-i]+"?insecure=true&name=other")
				in[i].register([]string{"web", "shop"}[i], one("10.0.0.1"))
				both = append(both, run(t, o))
			}
			first, second := watch(t, at[0], "insecure=true"), watch(t, at[1], "insecure=true")
			both[0].untilSound()
			both[1].untilSound()
			first.UntilThere(t, "mcp.inventory.web", "mcp.other.inventory.shop")
			second.UntilThere(t, "mcp.inventory.shop", "mcp.other.inventory.web")
			in[0].register("more", one("10.0.0.2"))
			second.UntilThere(t, "mcp.inventory.shop", "mcp.other.inventory.web", "mcp.other.inventory.more")
			both[1].restart()
			in[1].register("last", one("10.0.0.3"))
			has(t, first, "mcp.other.inventory.last")
			first.UntilThere(t, "mcp.inventory.web", "mcp.inventory.more", "mcp.other.inventory.shop", "mcp.other.inventory.last")
		})
	}
}
