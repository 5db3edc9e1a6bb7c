package mesh_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// limiting is a Sidecar. One with a higher age is older.
func limiting(name, namespace string, age int, rest string) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: %s, namespace: %s, creationTimestamp: '%d-01-01T00:00:00Z'}
spec: {%s}
`, name, namespace, 2020-age, rest)
}

const anyHost = "egress: [{hosts: ['*/*']}]"

func TestAProxyObeysTheClosestSidecarAndOfThoseTheOldest(t *testing.T) {
	t.Parallel()
	m := build(t, limiting("root", "istio-system", 9, anyHost)+
		limiting("young", "default", 1, anyHost)+
		limiting("old", "default", 2, anyHost)+
		limiting("app-young", "default", 3, anyHost+", workloadSelector: {labels: {app: a}}")+
		limiting("app-old", "default", 4, anyHost+", workloadSelector: {labels: {app: a}}")+
		limiting("elsewhere", "apps", 5, anyHost+", workloadSelector: {labels: {app: a}}"))
	router := sidecar("default", nil)
	router.Type = mesh.Router
	app := map[string]string{"app": "a", "pod": "1"}
	for _, c := range []struct {
		proxy *mesh.Proxy
		want  string
	}{
		{sidecar("default", app), "app-old"},
		{sidecar("default", map[string]string{"app": "b"}), "old"},
		{sidecar("apps", app), "elsewhere"},
		{sidecar("apps", nil), "root"},
		{sidecar("istio-system", nil), "root"},
		{router, ""},
	} {
		resource := m.Scope(c.proxy).Sidecar
		if c.want == "" {
			require.Nil(t, resource)
			continue
		}
		require.Equal(t, c.want, resource.Name)
	}
	require.Same(t, m.Scope(sidecar("default", app)), m.Scope(sidecar("default", map[string]string{"app": "a"})))
	require.NotEqual(t, m.Class(sidecar("default", app)), m.Class(sidecar("default", nil)), "labels that a Sidecar selects by tell classes apart")
}

func hosts(services []*mesh.Service) []string {
	out := []string{}
	for _, s := range services {
		out = append(out, s.Hostname)
	}
	return out
}

func TestASidecarNamesTheHostsThatItsProxiesSee(t *testing.T) {
	t.Parallel()
	services := entry("a", "one", "hosts: [a.example.com], "+port80) + entry("b", "one", "hosts: [b.example.com], "+port80) +
		entry("c", "two", "hosts: [c.example.com], "+port80) + entry("w", "two", "hosts: ['*.wild.com'], "+port80) +
		entry("hidden", "two", "hosts: [hidden.com], exportTo: ['.'], "+port80)
	for imports, want := range map[string][]string{
		"'*/*'":                       {"*.wild.com", "a.example.com", "b.example.com", "c.example.com"},
		"'./*'":                       {"a.example.com", "b.example.com"},
		"'one/*'":                     {"a.example.com", "b.example.com"},
		"'two/*'":                     {"*.wild.com", "c.example.com"},
		"'two/hidden.com'":            {},
		"'*/b.example.com'":           {"b.example.com"},
		"'two/b.example.com'":         {},
		"'*/*.example.com'":           {"a.example.com", "b.example.com", "c.example.com"},
		"'*/sub.wild.com'":            {},
		"'~/*'":                       {},
		"'./*', 'two/c.example.com'":  {"a.example.com", "b.example.com", "c.example.com"},
		"'*/*', '~one/*'":             {"*.wild.com", "c.example.com"},
		"'*/*', '~*/*.example.com'":   {"*.wild.com"},
		"'one/*', '~./a.example.com'": {"b.example.com"},
	} {
		m := build(t, services+limiting("s", "one", 0, "egress: [{hosts: ["+imports+"]}]"))
		require.ElementsMatch(t, want, hosts(m.Scope(sidecar("one", nil)).Services), imports)
	}
}

func TestAnEgressListenerObeysTheRulesForItsHosts(t *testing.T) {
	t.Parallel()
	m := build(t, entry("a", "one", "hosts: [a.example.com], ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: tcp, protocol: TCP}]")+
		entry("b", "two", "hosts: [b.example.com], ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: tcp, protocol: TCP}]")+
		entry("c", "two", "hosts: [c.example.com], "+port80)+`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: one}
spec:
  hosts: [a.example.com]
  http:
  - {match: [{sourceNamespace: other}], route: [{destination: {host: c.example.com}}]}
  - {route: [{destination: {host: b.example.com, port: {number: 81}}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: c, namespace: two}
spec: {hosts: ['*.example.org'], http: [{route: [{destination: {host: c.example.com}}]}]}
`+limiting("s", "one", 0, "egress: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['one/*']}, {hosts: ['two/sub.example.org', './*']}]"))
	scope := m.Scope(sidecar("one", nil))
	onPort, rest := scope.Egress[0], scope.Egress[1]
	require.Equal(t, uint32(80), onPort.Port.Number)
	require.Len(t, onPort.Services[0].Ports, 1)
	require.Len(t, onPort.VirtualServices, 1)
	require.Nil(t, rest.Port)
	require.Len(t, rest.VirtualServices, 2, "a rule counts where its hosts and the imported ones overlap")
	require.Len(t, scope.Service("a.example.com").Ports, 2, "both listeners' ports have clusters")
	require.Len(t, scope.Service("b.example.com").Ports, 2, "port 80 for the listener's own port, port 81 because a rule sends there")
	require.NotNil(t, scope.Service("c.example.com"), "the second listener's rule sends there")
}

func TestASidecarDecidesWhatBecomesOfUnknownDestinations(t *testing.T) {
	t.Parallel()
	m := build(t, limiting("s", "closed", 0, anyHost+", outboundTrafficPolicy: {mode: REGISTRY_ONLY}")+
		limiting("s", "unsaid", 0, anyHost+", outboundTrafficPolicy: {}"))
	require.False(t, m.Scope(sidecar("closed", nil)).AllowsAny())
	require.False(t, m.Scope(sidecar("unsaid", nil)).AllowsAny(), "as in Istio: a policy without a mode has the mode of number 0")
	require.True(t, m.Scope(sidecar("other", nil)).AllowsAny())
}

func TestScopesStayWhereNothingInThemChanges(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	const twoPorts = "ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: tcp, protocol: TCP}]"
	limited, all := sidecar("one", nil), sidecar("three", nil)
	m := mesh.Build(apply(t, store, entry("a", "one", "hosts: [a.example.com], "+twoPorts)+
		entry("b", "two", "hosts: [b.example.com], "+port80)+
		limiting("s", "one", 0, "egress: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['./*']}]")), nil)
	for _, c := range []struct {
		change          string
		limited, others bool // whether they stay
	}{
		{entry("b", "two", "hosts: [b.example.com], endpoints: [{address: 10.0.0.1}], "+port80), true, false},
		{entry("a", "one", "hosts: [a.example.com], endpoints: [{address: 10.0.0.1}], "+twoPorts), false, false},
		{rule("b", "two", "host: b.example.com, trafficPolicy: {loadBalancer: {simple: RANDOM}}"), true, false},
		{rule("a", "three", "host: a.example.com, trafficPolicy: {loadBalancer: {simple: RANDOM}}"), true, false},
		{rule("a", "one", "host: a.example.com"), false, true},
		{limiting("s", "four", 0, anyHost), true, true},
		{limiting("s", "one", 0, "egress: [{hosts: ['./*']}]"), false, true},
		{peers, true, true},
	} {
		before, beforeAll := m.Scope(limited), m.Scope(all)
		m = mesh.Build(apply(t, store, c.change), m)
		require.Equal(t, c.limited, before == m.Scope(limited), "the limited one after %s", c.change)
		require.Equal(t, c.others, beforeAll == m.Scope(all), "the other after %s", c.change)
	}
}

const peers = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: one}
spec: {mtls: {mode: STRICT}}
`
