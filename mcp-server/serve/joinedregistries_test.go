package serve_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// inventory is a folder of services that a server reads as a registry.
type inventory struct {
	t    *testing.T
	path string
}

func newInventory(t *testing.T) *inventory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "services")
	require.NoError(t, os.Mkdir(path, 0o755))
	return &inventory{t, path}
}

// registries names the folder as a registry.
func (i *inventory) registries() serve.Registries {
	return serve.Registries{URLs: []string{"files://" + i.path + "?name=inventory"}, Wait: time.Minute}
}

// has makes these services, each with one instance, those of a file.
func (i *inventory) has(file string, services ...string) {
	i.t.Helper()
	var text strings.Builder
	text.WriteString("services:\n")
	for _, name := range services {
		fmt.Fprintf(&text, "- {name: %s, hosts: [%[1]s.example.com], ports: [{number: 80, protocol: HTTP}], instances: [{address: 10.0.0.1}]}\n", name)
	}
	i.put(file, text.String())
}

func (i *inventory) put(file, text string) {
	i.t.Helper()
	written := filepath.Join(i.t.TempDir(), file)
	require.NoError(i.t, os.WriteFile(written, []byte(text), 0o644))
	require.NoError(i.t, os.Rename(written, filepath.Join(i.path, file)))
}

// away takes the folder away until it is called again.
func (i *inventory) away() (back func()) {
	i.t.Helper()
	require.NoError(i.t, os.Rename(i.path, i.path+".away"))
	return func() { require.NoError(i.t, os.Rename(i.path+".away", i.path)) }
}

// ready waits until /readyz says something.
func (r *running) ready(code int, says string) {
	r.t.Helper()
	poll.Eventually(r.t, func(context.Context) error {
		if now, text := r.get("/readyz"); now != code || !strings.Contains(text, says) {
			return fmt.Errorf("/readyz says %d: %s", now, text)
		}
		return nil
	})
}

func TestARegistryJoinsTheDatabase(t *testing.T) {
	t.Parallel()
	database, in := pgtest.New(t), newInventory(t)
	write(t, database, "a", "a.example")
	in.has("one.yaml", "web")
	server := launch(t, serve.Options{Database: database, Registries: in.registries()})
	c := connect(t, server.MCP.String(), nil)
	first := c.next()
	require.Equal(t, int64(1), first.Revision)
	require.ElementsMatch(t, []string{"a", "inventory.web"}, namesOf(first), "nothing is served before both were read")

	in.has("one.yaml", "web", "more")
	b := c.next()
	require.Equal(t, []string{"inventory.more"}, namesOf(b))
	require.Equal(t, int64(1), b.Revision, "a registry makes no revision")
	origin := b.Changes[0].Resource
	require.Equal(t, "inventory", origin.Origin())
	require.Equal(t, 1, origin.OriginRank())
	require.Equal(t, "one.yaml", origin.Annotations[kinds.OriginEntryAnnotation])

	write(t, database, "b", "b.example")
	require.Equal(t, []string{"b"}, c.until(2))
	in.has("one.yaml", "more")
	require.Equal(t, []string{"inventory.web gone"}, namesOf(c.next()))

	again := connect(t, server.MCP.String(), c.held)
	require.Empty(t, namesOf(again.next()), "who has everything is sent nothing again")
	_, metrics := server.get("/metrics")
	require.Contains(t, metrics, `pgmesh_mcp_server_origin_connected{registry="inventory"} 1`)
	require.Contains(t, metrics, `pgmesh_mcp_server_origin_resources{registry="inventory"} 1`)
}

func TestAResourceOfTheDatabaseCountsBeforeARegistrys(t *testing.T) {
	t.Parallel()
	database, in := pgtest.New(t), newInventory(t)
	in.has("one.yaml", "web")
	server := launch(t, serve.Options{Database: database, Registries: in.registries()})
	c := connect(t, server.MCP.String(), nil)
	require.Equal(t, []string{"inventory.web"}, namesOf(c.next()))
	write(t, database, "inventory.web", "ours.example")
	b := c.next()
	require.Equal(t, []string{"inventory.web"}, namesOf(b))
	require.Empty(t, b.Changes[0].Resource.Origin())
	execute(t, database, "DELETE FROM mesh.resources WHERE name = 'inventory.web'")
	b = c.next()
	require.Equal(t, []string{"inventory.web"}, namesOf(b), "the registry's is there again")
	require.Equal(t, "inventory", b.Changes[0].Resource.Origin())
}

// Without a database and without an upstream, registries are all that there is.
func TestABridgeServesARegistryAlone(t *testing.T) {
	t.Parallel()
	in := newInventory(t)
	in.has("one.yaml", "web")
	server := launch(t, serve.Options{Registries: in.registries()})
	c := connect(t, server.MCP.String(), nil)
	require.Equal(t, []string{"inventory.web"}, namesOf(c.next()))
	in.has("two.yaml", "more")
	require.Equal(t, []string{"inventory.more"}, namesOf(c.next()))
	c.stop()

	other := launch(t, serve.Options{Registries: in.registries()})
	there := connect(t, other.MCP.String(), c.held)
	require.Empty(t, namesOf(there.next()), "another bridge that has the same sends nothing again")
	relay := launch(t, relaying("", server.MCP.String()))
	far := connect(t, relay.MCP.String(), nil)
	require.ElementsMatch(t, []string{"inventory.web", "inventory.more"}, namesOf(far.next()))
	in.has("two.yaml")
	require.Equal(t, []string{"inventory.more gone"}, namesOf(far.next()))

	refused := status.Convert(apply(t, server.MCP.String()))
	require.Equal(t, codes.Unimplemented, refused.Code())
	require.Contains(t, refused.Message(), "it serves what its registries have")
}

func TestWhatARegistryHadStaysWhileItIsAway(t *testing.T) {
	t.Parallel()
	database, in, dir := pgtest.New(t), newInventory(t), t.TempDir()
	in.has("one.yaml", "web")
	o := serve.Options{Database: database, Registries: in.registries(), StateDir: dir}
	server := launch(t, o)
	c := connect(t, server.MCP.String(), nil)
	require.Equal(t, []string{"inventory.web"}, namesOf(c.next()))
	back := in.away()
	server.ready(200, "the registry inventory is as it was at 20")
	write(t, database, "a", "a.example")
	require.Equal(t, []string{"a"}, c.until(1), "the mesh goes on")
	server.end()

	server = launch(t, o) // it serves what the registry had
	again := connect(t, server.MCP.String(), c.held)
	require.Empty(t, again.until(1))
	server.ready(200, "the registry inventory is as it was at 20")
	_, metrics := server.get("/metrics")
	require.Contains(t, metrics, `pgmesh_mcp_server_origin_connected{registry="inventory"} 0`)
	back()
	in.has("one.yaml", "web", "more")
	require.Equal(t, []string{"inventory.more"}, namesOf(again.next()))
	server.ready(200, "ready")
}

func TestAServerWaitsForARegistryThatItHasNeverRead(t *testing.T) {
	t.Parallel()
	database, in := pgtest.New(t), newInventory(t)
	in.has("one.yaml", "web")
	write(t, database, "a", "a.example")
	back := in.away()
	waiting := launch(t, serve.Options{Database: database, Registries: in.registries()})
	waiting.ready(503, "waiting for what these registries have: inventory")
	short := in.registries()
	short.Wait = time.Millisecond
	server := launch(t, serve.Options{Database: database, Registries: short})
	server.ready(200, "serving without the registry inventory, which was never read")
	c := connect(t, server.MCP.String(), nil)
	require.Equal(t, []string{"a"}, c.until(1))
	back()
	require.Equal(t, []string{"inventory.web"}, namesOf(c.next()))
	waiting.ready(200, "ready")
}

func TestABadEntryCostsOnlyItself(t *testing.T) {
	t.Parallel()
	in := newInventory(t)
	in.has("good.yaml", "web")
	in.put("bad.yaml", "services: [{name: bad, hosts: [bad.example.com], ports: [{number: 80}]}, {name: fine, hosts: [fine.example.com], ports: [{number: 80}]}]")
	server := launch(t, serve.Options{Registries: in.registries()})
	c := connect(t, server.MCP.String(), nil)
	require.ElementsMatch(t, []string{"inventory.web", "inventory.bad", "inventory.fine"}, namesOf(c.next()))
	in.put("bad.yaml", "services: [{name: bad, hosts: ['not a host!'], ports: [{number: 80}]}, {name: fine, hosts: [fine.example.com], ports: [{number: 81}]}]")
	b := c.next()
	require.Equal(t, []string{"inventory.fine"}, namesOf(b))
	server.ready(200, "1 bad entries in the registry inventory, such as ServiceEntry default/inventory.bad")
	_, metrics := server.get("/metrics")
	require.Contains(t, metrics, `pgmesh_mcp_server_origin_bad_entries{registry="inventory"} 1`)
	in.put("bad.yaml", "services: {")
	server.ready(200, "2 bad entries in the registry inventory")
	in.has("good.yaml", "other")
	require.ElementsMatch(t, []string{"inventory.web gone", "inventory.other"}, namesOf(c.next()), "the last good state of the broken file stays")
}

func TestWhatARegistryHasIsChangedThere(t *testing.T) {
	t.Parallel()
	in := newInventory(t)
	in.has("one.yaml", "web")
	server := launch(t, serve.Options{Database: pgtest.New(t), Registries: in.registries()})
	connect(t, server.MCP.String(), nil).next()
	conn, err := grpc.NewClient(server.MCP.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	api := adminv1.NewAdminServiceClient(conn)
	of := &adminv1.ResourceRef{Kind: "ServiceEntry", Namespace: "default", Name: "inventory.web"}
	_, err = api.Delete(t.Context(), &adminv1.DeleteRequest{Resource: of})
	require.Equal(t, codes.NotFound, status.Code(err))
	require.ErrorContains(t, err, "comes from the registry inventory (one.yaml): it can be changed there alone")
	found, err := api.Get(t.Context(), &adminv1.GetRequest{Resource: of})
	require.NoError(t, err)
	require.Equal(t, "inventory", found.GetResource().GetMetadata().GetAnnotations()["pgmesh.io/origin"])
	_, err = api.Get(t.Context(), &adminv1.GetRequest{Resource: of, AsOf: &adminv1.GetRequest_Revision{Revision: 0}})
	require.ErrorContains(t, err, "comes from the registry inventory (one.yaml)", "it has no history")
	_, err = api.Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{{Content: []byte(`{apiVersion: networking.istio.io/v1, kind: ServiceEntry,
		metadata: {name: inventory.web, annotations: {pgmesh.io/origin: inventory}}, spec: {hosts: [web.example.com], ports: [{number: 80, name: http, protocol: HTTP}]}}`)}}})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "says that it comes from the registry inventory: change it there")
}

// What the admin API lists is what MCP serves: resources of the database, and then those of registries.
func TestTheAPIListsWhatRegistriesHave(t *testing.T) {
	t.Parallel()
	database, in := pgtest.New(t), newInventory(t)
	write(t, database, "a", "a.example")
	write(t, database, "b", "b.example")
	execute(t, database, `INSERT INTO mesh.resources (kind, name, spec) VALUES ('ServiceEntry', 'inventory.cart', '{"hosts": ["cart.example"], "ports": [{"name": "http", "number": 80, "protocol": "HTTP"}]}')`)
	in.put("one.yaml", `services:
- {name: web, namespace: shop, labels: {tier: web}, hosts: [web.example.com], ports: [{number: 80, protocol: HTTP}]}
- {name: pay, hosts: [pay.example.com], ports: [{number: 443, protocol: HTTPS}]}
- {name: cart, hosts: [cart.example.com], ports: [{number: 80, protocol: HTTP}]}`)
	server := launch(t, serve.Options{Database: database, Registries: in.registries()})
	c := connect(t, server.MCP.String(), nil)
	c.until(3)
	conn, err := grpc.NewClient(server.MCP.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	api := adminv1.NewAdminServiceClient(conn)
	list := func(req *adminv1.ListRequest) (names []string) {
		for {
			answer, err := api.List(t.Context(), req)
			require.NoError(t, err)
			if req.GetPageSize() > 0 {
				require.LessOrEqual(t, len(answer.GetResources()), int(req.GetPageSize()))
			}
			for _, r := range answer.GetResources() {
				name := r.GetMetadata().GetName()
				if origin := r.GetMetadata().GetAnnotations()["pgmesh.io/origin"]; origin != "" {
					name += " of " + origin
				}
				names = append(names, name)
			}
			if answer.GetNextPageToken() == "" {
				return names
			}
			req.PageToken = answer.GetNextPageToken()
		}
	}
	all := []string{"a", "b", "inventory.cart", "inventory.pay of inventory", "inventory.web of inventory"}
	for size := range int32(7) {
		require.Equal(t, all, list(&adminv1.ListRequest{PageSize: size}), "in pages of %d", size)
	}
	require.Equal(t, []string{"inventory.web of inventory"}, list(&adminv1.ListRequest{Namespaces: []string{"shop"}, PageSize: 1}))
	require.Equal(t, []string{"inventory.web of inventory"}, list(&adminv1.ListRequest{LabelSelector: "tier=web"}))
	require.Equal(t, []string{"inventory.pay of inventory"}, list(&adminv1.ListRequest{Where: `$.hosts[*] == "pay.example.com"`, PageSize: 1}))
	require.Empty(t, list(&adminv1.ListRequest{Kinds: []string{"vs"}}))
	require.Equal(t, all[:3], list(&adminv1.ListRequest{AsOf: &adminv1.ListRequest_Revision{Revision: 3}}), "registries have no history")
}

func TestARegistryThatIsMisspelledIsRefused(t *testing.T) {
	t.Parallel()
	for want, url := range map[string]string{
		`there is no registry of the scheme "file" (did you mean "files"?)`: "file:///etc",
		"with three slashes":                  "files://etc",
		`it has name and namespace`:           "files:///etc?nmae=x",
		`"No Name" is no name of a registry`:  "files:///etc?name=No%20Name",
		`is called files, as files:///etc is`: "files:///other",
	} {
		o := serve.Options{Registries: serve.Registries{URLs: []string{"files:///etc", url}}, Listen: "127.0.0.1:0", Log: discard}
		o.HTTP.Address, o.Plaintext.Allowed = "127.0.0.1:0", true
		require.ErrorContains(t, serve.Run(t.Context(), o, nil), want)
	}
}
