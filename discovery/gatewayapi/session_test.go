package gatewayapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
)

// sessionsOf are the sessions of a route's matches in the order of its rules, and what is wrong.
func sessionsOf(t *testing.T, rules string) (out []gatewayapi.Session, wrong []string) {
	t.Helper()
	w := readWorld(t, gatewayText("listeners: [{name: a, port: 80, protocol: HTTP}]")+routeText("HTTPRoute", "r", "edge", "parentRefs: [{name: web}], rules: ["+rules+"]"))
	pieces, wrong := w.attach(t, "HTTPRoute r")
	p := pieces[generated+"a *"]
	for _, rule := range p.HTTP {
		if e := p.Extras[rule]; e != nil {
			out = append(out, *e.Session)
		}
	}
	return out, wrong
}

const toOne = "backendRefs: [{name: one, port: 80}]"

func TestSessionsAreThoseOfRules(t *testing.T) {
	t.Parallel()
	sessions, wrong := sessionsOf(t, strings.Join([]string{
		"{sessionPersistence: {sessionName: a}, matches: [{path: {value: /x/}}, {path: {type: Exact, value: /y}}, {path: {type: RegularExpression, value: '/v/[0-9]+/z'}}, {}], " + toOne + "}",
		"{sessionPersistence: {sessionName: x-b, type: Header}, " + toOne + "}",
		"{sessionPersistence: {sessionName: c, absoluteTimeout: 1m30s, cookieConfig: {lifetimeType: Permanent}}, " + toOne + "}",
		"{sessionPersistence: {sessionName: d, absoluteTimeout: 1m30s}, " + toOne + "}",
		"{" + toOne + "}",
		"{sessionPersistence: {}, filters: [{type: RequestRedirect, requestRedirect: {hostname: away}}]}",
	}, ", "))
	require.Empty(t, wrong)
	require.Equal(t, []gatewayapi.Session{
		{Name: "a", Path: "/x"},
		{Name: "a", Path: "/y"},
		{Name: "a", Path: "/v"},
		{Name: "a", Path: "/"},
		{Name: "x-b", ByHeader: true},
		{Name: "c", Path: "/", Lifetime: 90 * time.Second},
		{Name: "d", Path: "/"},
	}, sessions)
}

// Without a name, each rule has its own, which stays while other rules come and go if the rule has one.
func TestSessionsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	one := "{sessionPersistence: {}, name: one, " + toOne + "}"
	first, _ := sessionsOf(t, one+", {sessionPersistence: {}, "+toOne+"}, {sessionPersistence: {type: Header}, "+toOne+"}")
	second, _ := sessionsOf(t, "{"+toOne+"}, "+one)
	require.Regexp(t, "^session-[0-9a-f]{8}$", first[0].Name)
	require.Regexp(t, "^x-session-[0-9a-f]{8}$", first[2].Name)
	require.NotEqual(t, first[0].Name, first[1].Name)
	require.Equal(t, first[0].Name, second[0].Name)
}

// What cannot be in a header is told, and the rest of the rule stays.
func TestNamesOfSessionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"sessionName: 'a b'", "sessionName: 'a;b'", "sessionName: 'a=b'", `sessionName: "a\r\nb"`, "sessionName: ':path', type: Header", "sessionName: Content-Length, type: Header"} {
		sessions, wrong := sessionsOf(t, "{sessionPersistence: {"+session+"}, "+toOne+"}")
		require.Empty(t, sessions, session)
		require.Len(t, wrong, 1, session)
		require.Contains(t, wrong[0], "spec.rules[0].sessionPersistence no cookie or header can have the name")
	}
}

// A path goes into the cookie as far as a cookie can have it.
func TestPathsOfCookies(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"Exact, value: /a;b": "/", "Exact, value: /x/a;b": "/x", "RegularExpression, value: '/a|/b'": "/", "RegularExpression, value: '^/a/b.*'": "/a",
		"RegularExpression, value: '.*'": "/", "RegularExpression, value: /a/b": "/a/b",
	} {
		sessions, _ := sessionsOf(t, "{sessionPersistence: {sessionName: a}, matches: [{path: {type: "+path+"}}], "+toOne+"}")
		require.Equal(t, []gatewayapi.Session{{Name: "a", Path: want}}, sessions, path)
	}
}

// Each backend has a name of its own, and a backend without a weight is still there.
func TestEachBackendHasItsSessions(t *testing.T) {
	t.Parallel()
	w := readWorld(t, gatewayText("listeners: [{name: a, port: 80, protocol: HTTP}]")+routeText("HTTPRoute", "r", "edge",
		"parentRefs: [{name: web}], rules: [{sessionPersistence: {sessionName: a}, backendRefs: [{name: one, port: 80, weight: 0}, {name: two, port: 80}]}]"))
	pieces, _ := w.attach(t, "HTTPRoute r")
	p := pieces[generated+"a *"]
	to := p.HTTP[0].GetRoute()
	require.Len(t, to, 2)
	require.Equal(t, int32(0), to[0].GetWeight())
	session := p.Extras[p.HTTP[0]].Session
	require.Equal(t, "a", session.Towards(to[0].GetDestination(), 0).Name)
	require.Regexp(t, "^a-[0-9a-f]{8}$", session.Towards(to[1].GetDestination(), 1).Name)
	require.Equal(t, session.Towards(to[1].GetDestination(), 1).Name, session.Towards(to[1].GetDestination(), 2).Name, "the order does not matter")
}
