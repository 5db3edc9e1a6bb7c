package rollout_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// ofAPI names a resource of the Gateway API.
func ofAPI(kind, name string) rollout.Resource {
	return rollout.Resource{Group: "gateway.networking.k8s.io", Kind: kind, Namespace: "default", Name: name}
}

const (
	routeStatus   = `{"parents": [{"parentRef": {"name": "edge"}, "controllerName": "pgmesh.io/gateway-controller", "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}]}]}`
	gatewayStatus = `{"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}], "listeners": [
		{"name": "http", "supportedKinds": [], "attachedRoutes": 1, "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}]},
		{"name": "bad", "supportedKinds": [], "attachedRoutes": 0, "conditions": [{"type": "Programmed", "status": "False", "reason": "Invalid", "message": ""}]}]}`
)

// own is the status of a resource in its own shape.
func (b *bench) own(kind, name string) string {
	b.t.Helper()
	return storetest.Value[string](b.db, "SELECT coalesce(status::text, '') FROM mesh.status_of($1, 'default', $2)", kind+".gateway.networking.k8s.io", name)
}

// shown are the conditions at a path of that status, in short.
func (b *bench) shown(kind, name, path string) string {
	b.t.Helper()
	return storetest.Value[string](b.db, `SELECT coalesce(string_agg(concat(c ->> 'type', '=', c ->> 'status', ':', c ->> 'reason', '@', c ->> 'observedGeneration'), ' ' ORDER BY n), '')
		FROM mesh.status_of($1, 'default', $2) s, jsonb_array_elements(jsonb_path_query_first(s.status, $3::jsonpath)) WITH ORDINALITY u (c, n)`, kind+".gateway.networking.k8s.io", name, path)
}

func (b *bench) put(kind, name, spec string) {
	b.t.Helper()
	b.db.Exec(`INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ('gateway.networking.k8s.io', $1, 'default', $2, $3)
		ON CONFLICT (name, namespace, kind, api_group) DO UPDATE SET spec = EXCLUDED.spec`, kind, name, spec)
}

func TestAStatusOfTheGatewayAPIIsInItsOwnShape(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("HTTPRoute", "shop", `{"parentRefs": [{"name": "edge"}]}`)                                                            // revision 1
	b.put("Gateway", "edge", `{"gatewayClassName": "pgmesh", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}`) // revision 2
	gateway, route := ofAPI("Gateway", "edge"), ofAPI("HTTPRoute", "shop")
	b.sends(rollout.Message{Revision: 1, Statuses: []rollout.Decided{{Resource: route, Status: routeStatus}, {Resource: gateway, Status: gatewayStatus}}})
	require.Equal(t, "Accepted=True:Accepted@1", b.shown("HTTPRoute", "shop", "$.parents[0].conditions"))
	require.Empty(t, b.own("Gateway", "edge"), "the discovery does not have it yet as it is")

	b.sends(rollout.Message{Revision: 2})
	require.Equal(t, "Accepted=True:Accepted@2 Programmed=False:NoResources@2", b.shown("Gateway", "edge", "$.conditions"))
	require.Equal(t, "Accepted=True:Accepted@2 Programmed=False:Pending@2", b.shown("Gateway", "edge", "$.listeners[0].conditions"))
	require.Equal(t, "Programmed=False:Invalid@2", b.shown("Gateway", "edge", "$.listeners[1].conditions"))

	// Machines serve it, the addresses of which are its own.
	serving := circled(1, "b", 1)
	serving.Addresses = []string{"10.0.0.2", "fd00::2"}
	other := circled(2, "a", 1)
	other.Addresses = []string{"10.0.0.1"}
	stranger := circled(3, "c", 2)
	stranger.Addresses = []string{"10.0.0.3"}
	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{serving, other, stranger}, Audiences: []rollout.Audience{{Resource: gateway, Circles: []uint32{1}}}})
	require.Equal(t, "Accepted=True:Accepted@2 Programmed=True:Programmed@2", b.shown("Gateway", "edge", "$.conditions"))
	require.Equal(t, "Accepted=True:Accepted@2 Programmed=True:Programmed@2", b.shown("Gateway", "edge", "$.listeners[0].conditions"))
	var shown struct {
		Addresses []struct{ Type, Value string }
	}
	require.NoError(t, json.Unmarshal([]byte(b.own("Gateway", "edge")), &shown))
	require.Equal(t, []struct{ Type, Value string }{{"IPAddress", "10.0.0.1"}, {"IPAddress", "10.0.0.2"}, {"IPAddress", "fd00::2"}}, shown.Addresses)
	list, err := rollout.New(b.store).Statuses(t.Context(), nil, rollout.Selection{Names: []string{"edge"}})
	require.NoError(t, err)
	require.JSONEq(t, b.own("Gateway", "edge"), string(list[0].Own))

	b.sends(rollout.Message{Revision: 2, Statuses: []rollout.Decided{{Resource: route, Status: strings.ReplaceAll(routeStatus, "True", "False")}, {Resource: gateway}}})
	require.Equal(t, "Accepted=False:Accepted@1", b.shown("HTTPRoute", "shop", "$.parents[0].conditions"))
	require.Empty(t, b.own("Gateway", "edge"), "it has none any more")
	b.keeper.Close(t.Context())
	require.Empty(t, b.own("HTTPRoute", "shop"), "nobody reports")
}

// attached is how routes stand at their parents.
func (b *bench) attached(of storetest.Session) []string {
	b.t.Helper()
	return storetest.Collect[string](of, `SELECT concat_ws(' ', kind, name, position, parent_kind, parent_namespace || '/' || parent_name, coalesce(section_name, '-'), coalesce(port::text, '-'),
		coalesce(listeners::text, '-'), coalesce(accepted::text, '-'), coalesce(resolved_refs::text, '-'), coalesce(conditions #>> '{0,observedGeneration}', conditions::text)) FROM mesh.attached_routes ORDER BY kind, name, position`)
}

// A route is shown at each parent that it names, with what is decided of it once a discovery has it.
func TestRoutesAreShownAtTheirParents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const parents = `"parentRefs": [{"name": "edge"}, {"name": "edge", "sectionName": "http", "port": 80}, {"group": "", "kind": "Service", "namespace": "bank", "name": "web"}]`
	b.put("HTTPRoute", "shop", `{`+parents+`}`)
	b.put("TLSRoute", "db", `{"parentRefs": [{"name": "edge"}], "hostnames": ["db.example.com"], "rules": [{"backendRefs": [{"name": "db", "port": 1}]}]}`)
	b.put("GRPCRoute", "nowhere", `{}`)
	require.Equal(t, []string{
		"HTTPRoute shop 0 Gateway default/edge - - - - -", "HTTPRoute shop 1 Gateway default/edge http 80 - - -", "HTTPRoute shop 2 Service bank/web - - - - -",
		"TLSRoute db 0 Gateway default/edge - - - - -",
	}, b.attached(b.db))

	const refused = `"conditions": [{"type": "Accepted", "status": "False", "reason": "NoMatchingParent", "message": ""}, {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "message": ""}]`
	taken := strings.Replace(refused, "False", "True", 1)
	b.sends(rollout.Message{Revision: 3, Statuses: []rollout.Decided{{Resource: ofAPI("HTTPRoute", "shop"), Status: `{"parents": [
		{"parentRef": {"name": "edge"}, "listeners": ["http", "https"], ` + taken + `},
		{"parentRef": {"name": "edge", "sectionName": "http", "port": 80}, ` + refused + `},
		{"parentRef": {"group": "", "kind": "Service", "namespace": "bank", "name": "web"}, ` + taken + `}]}`}}})
	require.Equal(t, []string{
		"HTTPRoute shop 0 Gateway default/edge - - {http,https} true true 1", "HTTPRoute shop 1 Gateway default/edge http 80 {} false true 1", "HTTPRoute shop 2 Service bank/web - - - true true 1",
		"TLSRoute db 0 Gateway default/edge - - - - -",
	}, b.attached(b.db))
	require.NotContains(t, b.own("HTTPRoute", "shop"), "listeners", "the API has no place for them")
	b.put("HTTPRoute", "shop", `{`+parents+`, "hostnames": ["shop.example.com"]}`)
	require.Equal(t, "HTTPRoute shop 0 Gateway default/edge - - - - -", b.attached(b.db)[0], "of what it is now nothing is decided")
}

// A Gateway that asks for addresses has those of them that machines have.
func TestAddressesThatAGatewayAsksFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("Gateway", "edge", `{"gatewayClassName": "pgmesh", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}`)
	gateway, machine := ofAPI("Gateway", "edge"), circled(1, "a", 1)
	machine.Addresses = []string{"10.0.0.1", "10.0.0.2", "fd00::2"}
	asking := func(addresses string) string {
		return strings.Replace(gatewayStatus, "{", `{"addresses": [`+addresses+`], `, 1)
	}
	says := func(addresses string, conditions string) {
		b.t.Helper()
		var shown struct{ Addresses json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(b.own("Gateway", "edge")), &shown))
		require.JSONEq(t, addresses, string(shown.Addresses))
		require.Equal(t, "Accepted=True:Accepted@1 "+conditions+"@1", b.shown("Gateway", "edge", "$.conditions"))
	}
	const usable, another, unusable = `{"type": "IPAddress", "value": "fd00::2"}`, `{"type": "IPAddress", "value": "10.0.0.1"}`, `{"type": "IPAddress", "value": "192.0.2.1"}`
	b.sends(rollout.Message{Revision: 1, Statuses: []rollout.Decided{{Resource: gateway, Status: asking(unusable)}}})
	says("[]", "Programmed=False:NoResources")
	b.sends(rollout.Message{Revision: 1, Proxies: []rollout.Proxy{machine}, Audiences: []rollout.Audience{{Resource: gateway, Circles: []uint32{1}}}})
	says("[]", "Programmed=False:AddressNotUsable")
	b.sends(rollout.Message{Revision: 1, Statuses: []rollout.Decided{{Resource: gateway, Status: asking(usable + ", " + unusable + ", " + another)}}})
	says("["+usable+", "+another+"]", "Programmed=False:AddressNotUsable")
	b.sends(rollout.Message{Revision: 1, Statuses: []rollout.Decided{{Resource: gateway, Status: asking(usable)}}})
	says("["+usable+"]", "Programmed=True:Programmed")
}

func TestAStatusThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sends(rollout.Message{Revision: 1})
	one := rollout.Decided{Resource: ofAPI("HTTPRoute", "shop"), Status: routeStatus}
	for reason, list := range map[string][]rollout.Decided{
		"is there twice":    {one, one},
		"is no JSON object": {{Resource: one.Resource, Status: "[1]"}},
		"takes 524300":      {{Resource: one.Resource, Status: `{"a": "` + strings.Repeat("x", 524291) + `"}`}},
	} {
		var invalid *store.InvalidError
		require.ErrorAs(t, b.keeper.Report(t.Context(), b.report, rollout.Message{Number: 2, Revision: 1, Statuses: list}), &invalid)
		require.Contains(t, invalid.Error(), reason)
	}
}
