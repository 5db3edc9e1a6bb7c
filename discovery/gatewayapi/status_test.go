package gatewayapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// told writes conditions in short.
func told(conditions []gatewayapi.Condition) string {
	var out []string
	for _, c := range conditions {
		out = append(out, c.Type+"="+c.Status+":"+c.Reason)
	}
	return strings.Join(out, " ")
}

// atParents is how a route stands at its parents, and which listeners have taken it.
func (w world) atParents(t *testing.T, route string) (parents, listeners []string) {
	t.Helper()
	a := w.attached(t, route)
	for _, p := range a.Status.Parents {
		require.Equal(t, "pgmesh.io/gateway-controller", p.ControllerName)
		parents = append(parents, fmt.Sprintf("%s %s", p.ParentRef.SectionName, told(p.Conditions)))
		listeners = append(listeners, p.Listeners...)
	}
	for _, at := range a.At {
		require.Contains(t, listeners, at.Section)
	}
	return parents, listeners
}

const (
	bothListeners = `listeners: [{name: http, port: 80, protocol: HTTP, hostname: '*.example.com'}, {name: grpc, port: 81, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}]}}]`
	taken         = "Accepted=True:Accepted ResolvedRefs=True:ResolvedRefs"
)

func TestARouteSaysHowItStandsAtEachParent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route     string
		parents   []string
		listeners []string
	}{
		"taken by one, and by part of the other": {
			"parentRefs: [{name: web}, {name: web, sectionName: grpc}], hostnames: [a.example.com], rules: [{backendRefs: [{name: x, port: 80}]}]",
			[]string{" " + taken, "grpc Accepted=False:NotAllowedByListeners ResolvedRefs=True:ResolvedRefs"},
			[]string{"http"},
		},
		"taken by one that is named, and by all": {
			"parentRefs: [{name: web, sectionName: http}, {name: web}], rules: [{backendRefs: [{name: x, port: 80}]}]",
			[]string{"http " + taken, " " + taken},
			[]string{"http", "http"},
		},
		"no such listener": {
			"parentRefs: [{name: web, sectionName: none}, {name: web, sectionName: http, port: 81}], rules: [{backendRefs: [{name: x, port: 80}]}]",
			[]string{"none Accepted=False:NoMatchingParent ResolvedRefs=True:ResolvedRefs", "http Accepted=False:NoMatchingParent ResolvedRefs=True:ResolvedRefs"},
			nil,
		},
		"no such hostname, which says more than that another takes no such kind": {
			"parentRefs: [{name: web}], hostnames: [a.example.org], rules: [{backendRefs: [{name: x, port: 80}]}]",
			[]string{" Accepted=False:NoMatchingListenerHostname ResolvedRefs=True:ResolvedRefs"},
			nil,
		},
		"a backend that is not there": {
			"parentRefs: [{name: web}], rules: [{backendRefs: [{name: gone, port: 80}]}]",
			[]string{" Accepted=True:Accepted ResolvedRefs=False:BackendNotFound"},
			[]string{"http"},
		},
		"a backend of no known kind": {
			"parentRefs: [{name: web}], rules: [{backendRefs: [{group: example.com, kind: Thing, name: x, port: 80}]}]",
			[]string{" Accepted=True:Accepted ResolvedRefs=False:InvalidKind"},
			[]string{"http"},
		},
		"a backend that may not be named, which sidecars may": {
			"parentRefs: [{name: web}, {group: '', kind: Service, name: x}], rules: [{backendRefs: [{name: x, namespace: bank, port: 80}]}]",
			[]string{" Accepted=True:Accepted ResolvedRefs=False:RefNotPermitted", " " + taken},
			[]string{"http"},
		},
		"a mirror that is not there": {
			"parentRefs: [{name: web}], rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: gone, port: 80}}}], backendRefs: [{name: x, port: 80}]}]",
			[]string{" Accepted=True:Accepted ResolvedRefs=False:BackendNotFound"},
			[]string{"http"},
		},
		"rules of no use, all of them": {
			"parentRefs: [{name: web}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: x.io, kind: Y, name: z}}], backendRefs: [{name: x, port: 80}]}]",
			[]string{" Accepted=False:UnsupportedValue ResolvedRefs=True:ResolvedRefs"},
			nil,
		},
		"rules of no use, one of them": {
			"parentRefs: [{name: web}], rules: [{matches: [{path: {type: RegularExpression, value: '('}}], backendRefs: [{name: x, port: 80}]}, {backendRefs: [{name: x, port: 80}]}]",
			[]string{" " + taken + " PartiallyInvalid=True:UnsupportedValue"},
			[]string{"http"},
		},
		"a service that is there, and one that is not": {
			"parentRefs: [{group: '', kind: Service, name: x}, {group: '', kind: Service, name: gone}, {group: networking.istio.io, kind: ServiceEntry, name: entry}, {group: networking.istio.io, kind: ServiceEntry, name: none}], rules: [{backendRefs: [{name: x, port: 80}]}]",
			[]string{" " + taken, " Accepted=False:NoMatchingParent ResolvedRefs=True:ResolvedRefs", " " + taken, " Accepted=False:NoMatchingParent ResolvedRefs=True:ResolvedRefs"},
			nil,
		},
		"a parent of somebody else": {
			"parentRefs: [{group: example.com, kind: Thing, name: x}], rules: [{backendRefs: [{name: x, port: 80}]}]", nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := readWorld(t, gatewayText(bothListeners)+routeText("HTTPRoute", "r", "edge", c.route))
			parents, listeners := w.atParents(t, "HTTPRoute r")
			require.Equal(t, c.parents, parents)
			require.Equal(t, c.listeners, listeners)
		})
	}
}

func TestAStatusNamesTheParentAsTheRouteDoes(t *testing.T) {
	t.Parallel()
	w := readWorld(t, gatewayText(bothListeners)+routeText("GRPCRoute", "r", "edge",
		"parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web, sectionName: grpc, port: 81}], rules: [{backendRefs: [{name: gone, port: 80}]}]"))
	require.JSONEq(t, `{"parents": [{
		"parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web", "sectionName": "grpc", "port": 81}, "controllerName": "pgmesh.io/gateway-controller", "listeners": ["grpc"],
		"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""},
			{"type": "ResolvedRefs", "status": "False", "reason": "BackendNotFound", "message": "spec.rules[0].backendRefs[0]: there is no service gone.edge.svc.cluster.local"}]
	}]}`, w.attached(t, "GRPCRoute r").Status.Text())
}

// stated are the conditions of the Gateway of a world, of its ListenerSets, and of their listeners, by
// name. Of secrets there is one that is called there.
func (w world) stated(attached map[string]int) map[string]string {
	out := map[string]string{}
	for of, s := range w.gateway.Statuses(gatewayapi.Beside{
		Attached: func(at gatewayapi.At) int { return attached[at.Section] },
		Known:    func(s gatewayapi.Secret) bool { return s.Name == "there" },
	}) {
		out[of.Name] = told(s.Conditions)
		if s.AttachedListenerSets != nil {
			out["sets"] = fmt.Sprint(*s.AttachedListenerSets)
		}
		for _, l := range s.Listeners {
			var takes []string
			for _, kind := range l.SupportedKinds {
				takes = append(takes, kind.Kind)
			}
			out[of.Name+" "+l.Name] = fmt.Sprintf("%d %v %s", l.AttachedRoutes, takes, told(l.Conditions))
		}
	}
	return out
}

const good = "Accepted=True:Accepted ResolvedRefs=True:ResolvedRefs Conflicted=False:NoConflicts"

func TestAGatewaySaysHowItsListenersStand(t *testing.T) {
	t.Parallel()
	w := readWorld(t, gatewayText(`listeners: [
		{name: http, port: 80, protocol: HTTP},
		{name: raw, port: 80, protocol: TCP},
		{name: udp, port: 80, protocol: UDP},
		{name: quic, port: 82, protocol: QUIC},
		{name: kinds, port: 81, protocol: HTTP, allowedRoutes: {kinds: [{kind: TLSRoute}, {kind: HTTPRoute}]}},
		{name: https, port: 443, protocol: HTTPS, hostname: a.example.com, tls: {certificateRefs: [{name: there}]}},
		{name: lost, port: 443, protocol: HTTPS, hostname: b.example.com, tls: {certificateRefs: [{name: lost}]}},
		{name: foreign, port: 443, protocol: HTTPS, hostname: c.example.com, tls: {certificateRefs: [{name: there, namespace: bank}]}},
		{name: wide, port: 443, protocol: HTTPS, hostname: '*.com', tls: {certificateRefs: [{name: there}, {name: lost}]}}]`))
	overlaps := " OverlappingTLSConfig=True:OverlappingHostnames"
	require.Equal(t, map[string]string{
		"web":         "Accepted=True:ListenersNotValid ResolvedRefs=False:ListenersNotResolved",
		"sets":        "0",
		"web http":    "3 [HTTPRoute GRPCRoute] " + good,
		"web raw":     "0 [TCPRoute] Accepted=False:ProtocolConflict ResolvedRefs=True:ResolvedRefs Conflicted=True:ProtocolConflict Programmed=False:ProtocolConflict",
		"web udp":     "2 [UDPRoute] " + good,
		"web quic":    "0 [] Accepted=False:UnsupportedProtocol ResolvedRefs=True:ResolvedRefs Conflicted=False:NoConflicts Programmed=False:Invalid",
		"web kinds":   "0 [HTTPRoute] Accepted=True:Accepted ResolvedRefs=False:InvalidRouteKinds Conflicted=False:NoConflicts",
		"web https":   "1 [HTTPRoute GRPCRoute] " + good + overlaps,
		"web lost":    "0 [HTTPRoute GRPCRoute] Accepted=True:Accepted ResolvedRefs=False:InvalidCertificateRef Conflicted=False:NoConflicts Programmed=False:Invalid" + overlaps,
		"web foreign": "0 [HTTPRoute GRPCRoute] Accepted=True:Accepted ResolvedRefs=False:RefNotPermitted Conflicted=False:NoConflicts Programmed=False:Invalid",
		"web wide":    "0 [HTTPRoute GRPCRoute] Accepted=True:Accepted ResolvedRefs=False:InvalidCertificateRef Conflicted=False:NoConflicts" + overlaps,
	}, w.stated(map[string]int{"http": 3, "https": 1, "udp": 2}))
}

func TestAGatewayWithoutAValidListenerIsNotAccepted(t *testing.T) {
	t.Parallel()
	w := readWorld(t, gatewayText("tls: {frontend: {default: {validation: {mode: AllowInsecureFallback, caCertificateRefs: [{kind: ConfigMap, group: '', name: ca}]}}}}, "+
		"listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: there}]}}]"))
	require.Equal(t, map[string]string{
		"web":       "Accepted=False:ListenersNotValid Programmed=False:Invalid ResolvedRefs=False:ListenersNotResolved InsecureFrontendValidationMode=True:ConfigurationChanged",
		"sets":      "0",
		"web https": "0 [HTTPRoute GRPCRoute] Accepted=False:NoValidCACertificate ResolvedRefs=False:InvalidCACertificateRef Conflicted=False:NoConflicts Programmed=False:Invalid",
	}, w.stated(nil))
}

func setText(name, namespace, listeners string) string {
	return routeText("ListenerSet", name, namespace, "parentRef: {name: web, namespace: edge}, listeners: ["+listeners+"]")
}

func TestListenerSetsSayHowTheyStand(t *testing.T) {
	t.Parallel()
	w := readWorld(t, gatewayText("allowedListeners: {namespaces: {from: Same}}, listeners: [{name: http, port: 80, protocol: HTTP}]")+
		setText("more", "edge", "{name: http, port: 80, protocol: HTTP, hostname: a.example.com}, {name: raw, port: 80, protocol: TCP}")+
		setText("useless", "edge", "{name: raw, port: 80, protocol: TCP}, {name: same, port: 80, protocol: HTTP}")+
		setText("foreign", "shop", "{name: http, port: 81, protocol: HTTP}"))
	all := w.stated(nil)
	require.Equal(t, "Accepted=True:Accepted ResolvedRefs=True:ResolvedRefs", all["web"])
	require.Equal(t, "1", all["sets"])
	require.Equal(t, "Accepted=True:ListenersNotValid", all["more"])
	require.Equal(t, "0 [HTTPRoute GRPCRoute] "+good, all["more http"])
	require.Contains(t, all["more raw"], "Conflicted=True:ProtocolConflict")
	require.Equal(t, "0 [HTTPRoute GRPCRoute] Accepted=False:HostnameConflict ResolvedRefs=True:ResolvedRefs Conflicted=True:HostnameConflict Programmed=False:HostnameConflict", all["useless same"])
	require.Equal(t, "Accepted=False:ListenersNotValid Programmed=False:ListenersNotValid", all["useless"])
	require.Equal(t, "Accepted=False:NotAllowed Programmed=False:NotAllowed", all["foreign"])
}

// A route to a ListenerSet that its Gateway does not take is told of that, and not of a listener's name.
func TestARouteToAListenerSetThatIsNotTaken(t *testing.T) {
	t.Parallel()
	w := readWorld(t, gatewayText("listeners: [{name: http, port: 80, protocol: HTTP}]")+
		setText("more", "edge", "{name: http, port: 81, protocol: HTTP}")+
		routeText("HTTPRoute", "r", "edge", "parentRefs: [{kind: ListenerSet, name: more}], rules: [{backendRefs: [{name: x, port: 80}]}]"))
	a := w.attached(t, "HTTPRoute r")
	require.Equal(t, "NoMatchingParent", a.Status.Parents[0].Conditions[0].Reason)
	require.Equal(t, "ListenerSet edge/more has no listeners, or its Gateway does not take them", a.Status.Parents[0].Conditions[0].Message)
}

// A listener that cannot be served takes routes, as the API says, and has no effect.
func TestAListenerThatIsNotServedTakesRoutes(t *testing.T) {
	t.Parallel()
	w := readWorld(t, gatewayText("listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: there, namespace: bank}]}}]")+
		routeText("HTTPRoute", "r", "edge", "parentRefs: [{name: web}], rules: [{backendRefs: [{name: x, port: 80}]}]"))
	parents, listeners := w.atParents(t, "HTTPRoute r")
	require.Equal(t, []string{" " + taken}, parents)
	require.Equal(t, []string{"https"}, listeners)
	pieces, wrong := w.attach(t, "HTTPRoute r")
	require.Empty(t, pieces)
	require.Equal(t, []string{`spec.parentRefs[0] the listener "https" is not served: the route has no effect there`}, wrong)
}

func TestOnlyOurClassesHaveAStatus(t *testing.T) {
	t.Parallel()
	text := "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: %s}\nspec: {controllerName: %s}\n"
	resources := parsed(t, gatewayText("listeners: [{name: http, port: 80, protocol: HTTP}]")+fmt.Sprintf(text, "pgmesh", "istio.io/gateway-controller")+fmt.Sprintf(text, "ours", "pgmesh.io/gateway-controller"))
	require.Nil(t, gatewayapi.StatusOfClass(resources["GatewayClass pgmesh"]))
	ours := gatewayapi.StatusOfClass(resources["GatewayClass ours"])
	require.Equal(t, "Accepted=True:Accepted SupportedVersion=True:SupportedVersion", told(ours.Conditions))
	require.True(t, slices.IsSortedFunc(ours.SupportedFeatures, func(a, b gatewayapi.Feature) int { return strings.Compare(a.Name, b.Name) }))

	// What Istio's controller says the status of is served all the same.
	w := world{resources: resources, gateway: gatewayapi.ReadGateway(resources["Gateway web"], nil, gatewayapi.ReadClasses(slices.Values([]*kinds.Resource{resources["GatewayClass pgmesh"]})), grantsOf(resources))}
	require.Len(t, w.gateway.Listeners, 1)
	require.Empty(t, w.stated(nil))
	resources["HTTPRoute r"] = parsed(t, routeText("HTTPRoute", "r", "edge", "parentRefs: [{name: web}], rules: [{backendRefs: [{name: x, port: 80}]}]"))["HTTPRoute r"]
	a := w.attached(t, "HTTPRoute r")
	require.Empty(t, a.Status.Parents)
	require.Len(t, a.Pieces, 1)
}

// A secret of another namespace needs a grant there; one of its own a ListenerSet may name.
func TestCertificatesOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	const grant = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: g, namespace: vault}\n" +
		"spec: {from: [{group: gateway.networking.k8s.io, kind: %s, namespace: edge}], to: [{group: '', kind: Secret%s}]}\n"
	for name, c := range map[string]struct {
		grant string
		lent  []gatewayapi.Secret
	}{
		"no grant":                   {"", nil},
		"a grant for all":            {fmt.Sprintf(grant, "Gateway", ""), []gatewayapi.Secret{{Namespace: "vault", Name: "pair"}}},
		"a grant for this one":       {fmt.Sprintf(grant, "Gateway", ", name: pair"), []gatewayapi.Secret{{Namespace: "vault", Name: "pair"}}},
		"a grant for another":        {fmt.Sprintf(grant, "Gateway", ", name: other"), nil},
		"a grant for another's kind": {fmt.Sprintf(grant, "ListenerSet", ""), nil},
	} {
		w := readWorld(t, gatewayText("listeners: [{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: pair, namespace: vault}]}}]")+c.grant)
		require.Equal(t, c.lent, w.gateway.Lent(), name)
		require.Equal(t, []string{"vault"}, w.gateway.Abroad, name)
		require.Len(t, w.served(), len(c.lent), name)
		if c.lent == nil {
			require.Contains(t, w.gateway.Problems[0].Reason, "no ReferenceGrant of the namespace vault allows a Gateway of edge to name the secret pair", name)
			require.Equal(t, "Accepted=True:Accepted Programmed=False:Invalid ResolvedRefs=False:ListenersNotResolved", w.stated(nil)["web"], name)
		}
	}
}

// A ListenerSet may name secrets of its own namespace, and is not accepted if it may have none that it
// names.
func TestCertificatesOfListenerSets(t *testing.T) {
	t.Parallel()
	const set = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: %s, namespace: shop}\n" +
		"spec: {parentRef: {name: web, namespace: edge}, listeners: [{name: %[1]s, port: %d, protocol: HTTPS, tls: {certificateRefs: [{name: there%s}]}}]}\n"
	w := readWorld(t, gatewayText("allowedListeners: {namespaces: {from: All}}, listeners: [{name: a, port: 80, protocol: HTTP}]")+
		fmt.Sprintf(set, "own", 443, "")+fmt.Sprintf(set, "others", 444, ", namespace: vault"))
	require.Equal(t, []gatewayapi.Secret{{Namespace: "shop", Name: "there"}}, w.gateway.Lent())
	all := w.stated(nil)
	require.Equal(t, "Accepted=True:Accepted", all["own"])
	require.Equal(t, "Accepted=False:ListenersNotValid Programmed=False:ListenersNotValid", all["others"])
	require.Contains(t, all["others others"], "ResolvedRefs=False:RefNotPermitted")
}

func TestAGatewayAsksForAddresses(t *testing.T) {
	t.Parallel()
	const listeners = ", listeners: [{name: http, port: 80, protocol: HTTP}]"
	w := readWorld(t, gatewayText("addresses: [{value: 10.0.0.1}, {type: IPAddress, value: 'fd00:0::1'}, {type: IPAddress}, {type: Hostname, value: entrance}]"+listeners))
	require.Equal(t, []string{"10.0.0.1", "fd00::1"}, w.gateway.Addresses)
	require.Equal(t, []string{"entrance.edge.svc.cluster.local"}, w.gateway.Services)
	own := w.gateway.Statuses(gatewayapi.Beside{Attached: func(gatewayapi.At) int { return 0 }})[w.gateway.Resource.Key()]
	require.Equal(t, []gatewayapi.Address{{Type: "IPAddress", Value: "10.0.0.1"}, {Type: "IPAddress", Value: "fd00::1"}}, own.Addresses)
	require.Equal(t, taken, told(own.Conditions))
}

func TestAnAddressOfAnUnknownTypeHasTheGatewayRefused(t *testing.T) {
	t.Parallel()
	text := gatewayText("addresses: [{type: example.com/pool, value: a}, {value: 10.0.0.1}], allowedListeners: {namespaces: {from: Same}}, listeners: [{name: http, port: 80, protocol: HTTP}]") +
		setText("more", "edge", "{name: more, port: 81, protocol: HTTP}")
	w := readWorld(t, text)
	require.Empty(t, w.served())
	require.Equal(t, []gatewayapi.Problem{{
		Of: w.gateway.Resource.Key(), Path: "spec.addresses[0].type",
		Reason: `there are no addresses of the type "example.com/pool": write IPAddress or Hostname. Nobody serves the Gateway`,
	}}, w.gateway.Problems)
	all := w.stated(map[string]int{"http": 1})
	require.Equal(t, "Accepted=False:UnsupportedAddress Programmed=False:Invalid ResolvedRefs=True:ResolvedRefs", all["web"])
	require.Equal(t, "1 [HTTPRoute GRPCRoute] "+good+" Programmed=False:Invalid", all["web http"])
	require.Equal(t, "Accepted=False:ParentNotAccepted Programmed=False:ParentNotAccepted", all["more"])

	// Istio's controller leaves out what it does not know.
	class := parsed(t, "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: pgmesh}\nspec: {controllerName: istio.io/gateway-controller}\n")["GatewayClass pgmesh"]
	w.gateway = gatewayapi.ReadGateway(w.gateway.Resource, nil, gatewayapi.ReadClasses(slices.Values([]*kinds.Resource{class})), nil)
	require.Len(t, w.served(), 1)
}
