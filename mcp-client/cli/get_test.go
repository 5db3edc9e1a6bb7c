package cli_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// bookinfo is a small mesh in two namespaces.
func bookinfo(t *testing.T) *mesh {
	t.Helper()
	m := start(t)
	m.apply(virtualService("default", "reviews", "reviews-v1") + both + virtualService("default", "ratings", "ratings-v1") + both +
		virtualService("prod", "reviews", "reviews-v2") + both + `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews}
spec:
  host: reviews
  subsets: [{name: v1}, {name: v2}, {name: v3}, {name: v4}, {name: v5}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, labels: {app: edge}}
spec:
  gatewayClassName: pgmesh
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: https, port: 8080, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: pgmesh}
spec: {controllerName: pgmesh.io/controller}
`)
	return m
}

var ages = regexp.MustCompile(`(?m)\d+s$`)

func TestGetPrintsTables(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	for args, want := range map[[3]string]string{
		{"get", "vs"}: `NAMESPACE   NAME      GATEWAYS   HOSTS                 AGE
default     ratings   mesh       ratings.example.com   <age>
default     reviews   mesh       reviews.example.com   <age>
`,
		{"get", "virtualservices", "-A"}: `NAMESPACE   NAME      GATEWAYS   HOSTS                 AGE
default     ratings   mesh       ratings.example.com   <age>
default     reviews   mesh       reviews.example.com   <age>
prod        reviews   mesh       reviews.example.com   <age>
`,
		{"get", "vs", "-owide"}: `NAMESPACE   NAME      GATEWAYS   HOSTS                 DESTINATIONS   AGE
default     ratings   mesh       ratings.example.com   ratings-v1     <age>
default     reviews   mesh       reviews.example.com   reviews-v1     <age>
`,
		{"get", "vs/prod/reviews", "dr/reviews"}: `NAMESPACE   NAME                     GATEWAYS   HOSTS                 AGE
prod        virtualservice/reviews   mesh       reviews.example.com   <age>

NAMESPACE   NAME                      HOST      SUBSETS       AGE
default     destinationrule/reviews   reviews   v1,v2,v3 +2   <age>
`,
		{"get", "gtw"}: `NAMESPACE   NAME   CLASS    PORTS     AGE
default     edge   pgmesh   80,8080   <age>
`,
		{"get", "gatewayclasses"}: `NAME     CONTROLLER             AGE
pgmesh   pgmesh.io/controller   <age>
`,
		{"get", "all", "-lapp"}: `NAMESPACE   NAME                     GATEWAYS   HOSTS                 AGE
default     virtualservice/ratings   mesh       ratings.example.com   <age>
default     virtualservice/reviews   mesh       reviews.example.com   <age>

NAMESPACE   NAME                                     CLASS    PORTS     AGE
default     gateway.gateway.networking.k8s.io/edge   pgmesh   80,8080   <age>
`,
		{"get", "vs", "-lapp in (ratings)"}: `NAMESPACE   NAME      GATEWAYS   HOSTS                 AGE
default     ratings   mesh       ratings.example.com   <age>
`,
	} {
		var given []string
		for _, a := range args {
			if a != "" {
				given = append(given, a)
			}
		}
		require.Equal(t, want, ages.ReplaceAllString(m.ok(given...), "<age>"), "%v", given)
	}
}

func TestGetOutputCanBeApplied(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	require.Equal(t, virtualService("prod", "reviews", "reviews-v2"), withoutTimes(m.ok("get", "vs", "reviews", "-n", "prod", "-o", "yaml")))
	require.JSONEq(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "pgmesh"}, "spec": {"controllerName": "pgmesh.io/controller"}}`,
		withoutTimes(m.ok("get", "gc", "pgmesh", "-o", "json")))
	require.Equal(t, "gateway.gateway.networking.k8s.io/default/edge\n", m.ok("get", "gateways.gateway.networking.k8s.io", "-o", "name"))
	for _, format := range []string{"yaml", "json"} {
		everything := m.ok("get", "all", "-A", "-o", format)
		r := m.pipe(everything, "apply", "-f", "-")
		require.Zero(t, r.code, r.err)
		require.Regexp(t, `^([a-z0-9.]+ \S+ unchanged\n){6}nothing to change\n$`, r.out)
	}
	for _, reference := range []string{"virtualservice.networking.istio.io/prod/reviews", "gatewayclass.gateway.networking.k8s.io/pgmesh"} {
		require.Equal(t, reference+"\n", m.ok("get", reference, "-o", "name"))
	}
}

var times = regexp.MustCompile(`(?m)^\s*"?creationTimestamp.*\n|,\s*"creationTimestamp": "[^"]*"`)

func withoutTimes(text string) string { return times.ReplaceAllString(text, "") }

func TestGetMissingResource(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	for args, want := range map[[3]string]result{
		{"get", "vs", "reviws"}:               {1, "", "error: VirtualService default/reviws: not found (did you mean \"reviews\"?)\n"},
		{"get", "vs/prod/ratings"}:            {1, "", "error: VirtualService prod/ratings: not found (there is one in the namespace default)\n"},
		{"get", "gc", "other-altogether"}:     {1, "", "error: GatewayClass other-altogether: not found\n"},
		{"get", "wasmplugins"}:                {0, "", "nothing found in namespace default\n"},
		{"get", "vs", "-lapp=nothing"}:        {0, "", "nothing found in namespace default\n"},
		{"get", "wasmplugins", "-oyaml"}:      {0, "", ""},
		{"get", "vs", "-l=a b"}:               {2, "", ""},
		{"get", "virtualservise"}:             {2, "", "error: unknown kind \"virtualservise\" (did you mean \"VirtualService\"?) (see mcp-client get --help)\n"},
		{"get", "vs/reviews", "vs"}:           {2, "", "error: \"vs\" is not of the form KIND/NAME, as the first argument is (see mcp-client get --help)\n"},
		{"get", "vs/reviews", "--labels=foo"}: {2, "", "error: unknown flag: --labels (see mcp-client get --help)\n"},
	} {
		var given []string
		for _, a := range args {
			if a != "" {
				given = append(given, a)
			}
		}
		got := m.run(given...)
		if want.err == "" {
			require.Equal(t, want.code, got.code, "%v: %s", given, got.err)
			continue
		}
		require.Equal(t, want, got, "%v", given)
	}
	r := m.run("get", "vs", "reviews", "nothing-like-it", "-o", "name")
	require.Equal(t, result{1, "virtualservice.networking.istio.io/default/reviews\n", "error: VirtualService default/nothing-like-it: not found\n"}, r)
}
