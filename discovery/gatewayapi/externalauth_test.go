package gatewayapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
)

// ofRules is what the rules of a route come to on a Gateway.
func ofRules(t *testing.T, rules ...string) (*gatewayapi.Piece, gatewayapi.Attached) {
	t.Helper()
	w := readWorld(t, gatewayText("listeners: [{name: a, port: 80, protocol: HTTP}]")+
		routeText("HTTPRoute", "r", "edge", "parentRefs: [{name: web}], rules: ["+strings.Join(rules, ", ")+"]"))
	all := w.attached(t, "HTTPRoute r")
	require.Len(t, all.Pieces, 1)
	return all.Pieces[0], all
}

func TestAServiceDecidesAboutRequestsOfARule(t *testing.T) {
	t.Parallel()
	auth := func(spec string) string { return "{type: ExternalAuth, externalAuth: {" + spec + "}}" }
	rule := func(filters, more string) string { return "{filters: [" + filters + "], " + more + toOne + "}" }
	p, all := ofRules(
		t, rule(auth("protocol: GRPC, grpc: {}, backendRef: {name: auth, port: 9000}"), "matches: [{path: {value: /a}}, {path: {value: /b}}], "),
		rule(auth("protocol: GRPC, grpc: {allowedHeaders: [a, b]}, backendRef: {name: auth, port: 9000}, forwardBody: {maxSize: 7}"), "timeouts: {request: 3s}, "),
		rule(auth("protocol: HTTP, http: {path: a//b/, allowedHeaders: [c], allowedResponseHeaders: [d]}, backendRef: {group: networking.istio.io, kind: ServiceEntry, name: entry, port: 80}"), ""),
		rule(auth("protocol: HTTP, http: {path: /}, backendRef: {group: networking.istio.io, kind: Hostname, name: a.example.org}"), ""),
		"{"+toOne+"}",
	)
	require.Empty(t, all.Problems)
	var got []*gatewayapi.Authorization
	for _, r := range p.HTTP {
		require.Nil(t, r.GetDirectResponse())
		if e := p.Extras[r]; e != nil {
			got = append(got, e.Authorization)
		}
	}
	service := "auth.edge.svc.cluster.local"
	require.Equal(t, []*gatewayapi.Authorization{
		{Host: service, Port: 9000, GRPC: true},
		{Host: service, Port: 9000, GRPC: true},
		{Host: service, Port: 9000, GRPC: true, Told: []string{"a", "b"}, Body: 7, Timeout: 3 * time.Second},
		{Host: "entry.example.org", Port: 80, Path: "/a//b", Told: []string{"c"}, Taken: []string{"d"}},
		{Host: "a.example.org"},
	}, got)
	require.Equal(t, []string{"a.example.org", service, "entry.example.org"}, gatewayapi.Merge([]*gatewayapi.Piece{p}).Authorizers())
}

// Where nobody can be asked nothing passes, and the status tells.
func TestWithoutAnyoneToAskNothingPasses(t *testing.T) {
	t.Parallel()
	for of, want := range map[string]struct{ reason, message string }{
		"name: gone, port: 80":                   {"BackendNotFound", "there is no service gone.edge.svc.cluster.local"},
		"name: auth, namespace: other, port: 80": {"RefNotPermitted", "no ReferenceGrant of the namespace other"},
		"group: inference.networking.k8s.io, kind: InferencePool, name: auth, port: 80": {"InvalidKind", "an InferencePool cannot decide about requests"},
		"kind: Thing, name: auth, port: 80":                                             {"InvalidKind", "can be no backend"},
		"group: networking.istio.io, kind: ServiceEntry, name: nobody, port: 80":        {"BackendNotFound", "there is no ServiceEntry"},
	} {
		p, all := ofRules(t, "{filters: [{type: RequestRedirect, requestRedirect: {hostname: away}}, {type: ExternalAuth, externalAuth: {protocol: HTTP, http: {}, backendRef: {"+of+"}}}]}")
		require.Equal(t, uint32(http.StatusInternalServerError), p.HTTP[0].GetDirectResponse().GetStatus(), of)
		require.Nil(t, p.HTTP[0].GetRedirect(), of)
		require.Empty(t, p.Extras, of)
		require.Len(t, all.Problems, 1, of)
		require.Equal(t, "spec.rules[0].filters[1].externalAuth.backendRef", all.Problems[0].Path)
		require.Contains(t, all.Problems[0].Reason, want.message)
		resolved := all.Status.Parents[0].Conditions[1]
		require.Equal(t, []string{"ResolvedRefs", "False", want.reason}, []string{resolved.Type, resolved.Status, resolved.Reason}, of)
		require.Contains(t, resolved.Message, want.message)
	}
}

// Envoy asks one service for a route: a rule with two filters lets nothing pass.
func TestARuleHasOneExternalAuth(t *testing.T) {
	t.Parallel()
	one := "{type: ExternalAuth, externalAuth: {protocol: HTTP, http: {}, backendRef: {name: auth, port: 80}}}"
	p, all := ofRules(t, "{filters: ["+one+", "+one+"], "+toOne+"}", "{matches: [{path: {value: /a}}], "+toOne+"}")
	require.Equal(t, uint32(http.StatusInternalServerError), p.HTTP[0].GetDirectResponse().GetStatus())
	require.Empty(t, p.Extras)
	require.Len(t, all.Problems, 1)
	require.Contains(t, all.Problems[0].Reason, "a rule has one filter of type ExternalAuth")
	partly := all.Status.Parents[0].Conditions[2]
	require.Equal(t, []string{"PartiallyInvalid", "True", "UnsupportedValue"}, []string{partly.Type, partly.Status, partly.Reason})
}
