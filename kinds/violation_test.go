package kinds_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

// document is a VirtualService with some of its text replaced.
func document(oldnew ...string) string {
	return strings.NewReplacer(oldnew...).Replace(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: reviews
  namespace: shop
spec:
  hosts:
  - reviews
  http:
  - name: first
    timeout: 5s
    route:
    - destination:
        host: reviews
      weight: 100
`)
}

const of = "f.yaml: document 1, line %d: VirtualService shop/reviews: "

func TestMistakesInAVirtualService(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		old, new string
		line     int
		want     string
	}{
		{"kind: VirtualService", "kind: VirtualServise", 2, `kind: unknown kind "VirtualServise" (did you mean "VirtualService"?)`},
		{"io/v1", "io/v2", 1, `apiVersion: unknown version "v2" of VirtualService.networking.istio.io (one of v1, v1alpha3, v1beta1)`},
		{"networking.istio.io/v1", "security.istio.io/v1", 1, `apiVersion: unknown apiVersion "security.istio.io/v1" of VirtualService (write networking.istio.io/v1)`},
		{"spec:", "speck:", 6, `speck: unknown field "speck" (did you mean "spec"?)`},
		{"weight:", "wieght:", 15, `spec.http[0].route[0].wieght: unknown field "wieght" (did you mean "weight"?)`},
		{"weight:", "share:", 15, `spec.http[0].route[0].share: unknown field "share" (known fields: destination, weight, headers)`},
		{"weight: 100", "weight: -1", 15, `spec.http[0].route[0].weight: must be between 0 and 2147483647, got -1`},
		{"weight: 100", "weight: 1.5", 15, `spec.http[0].route[0].weight: expected an integer, got 1.5`},
		{"weight: 100", "weight: half", 15, `spec.http[0].route[0].weight: expected an integer, got "half"`},
		{"weight: 100", "weight: 99\n      weight: 1", 16, `spec.http[0].route[0].weight: duplicate key "weight" (it is first set on line 15)`},
		{"  - reviews", "  - ''", 8, `spec.hosts[0]: must not be empty`},
		{"  - reviews", "  - 12", 8, `spec.hosts[0]: expected a string, got 12`},
		{"  hosts:\n  - reviews", "  hosts: reviews", 7, `spec.hosts: expected a list, got "reviews"`},
		{"        host: reviews", "        subset: v1", 13, `spec.http[0].route[0].destination.host: required field is missing`},
		{"        host: reviews", "        host: ''", 14, `spec.http[0].route[0].destination.host: must not be empty`},
		{"timeout: 5s", "timeout: soon", 11, `spec.http[0].timeout: "soon" is not a duration (write it as "5s", "100ms" or "1h30m"; a plain integer is taken as seconds)`},
		{"timeout: 5s", "timeout: [5s]", 11, `spec.http[0].timeout: expected a duration such as "5s", got a list (write it as "5s", "100ms" or "1h30m"; a plain integer is taken as seconds)`},
		{"timeout: 5s", "timeout: .inf", 11, `spec.http[0].timeout: ".inf" is not a JSON value`},
		{"timeout: 5s", "timeout: !secret x", 11, `spec.http[0].timeout: the tag !secret is not supported`},
		{"timeout: 5s", "match:\n    - uri: {exact: /a, prefix: /b}", 12, `spec.http[0].match[0].uri: only one of exact, prefix may be set`},
		{"timeout: 5s", "corsPolicy: {unmatchedPreflights: SOMETIMES}", 11, `spec.http[0].corsPolicy.unmatchedPreflights: unknown value "SOMETIMES" (one of UNSPECIFIED, FORWARD, IGNORE)`},
		{"  - name: first", "  - {name: first}\n  - name: [a]", 11, `spec.http[1].name: expected a string, got a list`},
		{"name: first", `name: "a\0b"`, 10, `spec.http[0].name: must not contain the character NUL`},

		{"namespace: shop", "namespace: shop\n  labels: {enabled: true}", 6, `metadata.labels.enabled: expected a string, got true`},
		{"namespace: shop", "namespace: shop\n  labels:\n    a/b/c: x", 7, `metadata.labels["a/b/c"]: "a/b/c" is not a valid label key (write it as "name" or "example.com/name"; the name has at most 63 letters, digits, "-", "_" and ".", the first and the last a letter or digit)`},
		{"namespace: shop", "namespace: shop\n  labels:\n    a: b c", 7, `metadata.labels.a: "b c" is not a valid label value (at most 63 letters, digits, "-", "_" and ".", the first and the last a letter or digit)`},
		{"namespace: shop", "namespace: shop\n  annotations: []", 6, `metadata.annotations: expected an object, got a list`},
		{"namespace: shop", "namespace: shop\n  anotations: {}", 6, `metadata.anotations: unknown field "anotations" (did you mean "annotations"?)`},
		{"namespace: shop", "namespace: shop\n  creationTimestamp: today", 6, `metadata.creationTimestamp: "today" is not a time (write it as "2006-01-02T15:04:05Z")`},
		{"namespace: shop", "namespace: shop\n  [a, b]: c", 6, `metadata: a key must be a string`},
	} {
		_, err := kinds.Parse("f.yaml", []byte(document(c.old, c.new)))
		want := fmt.Sprintf(of, c.line) + c.want
		if strings.HasPrefix(c.new, "kind:") {
			want = strings.Replace(want, "VirtualService", "VirtualServise", 1)
		}
		require.EqualError(t, err, want, c.new)
	}
}

func TestMistakesInTheEnvelope(t *testing.T) {
	t.Parallel()
	const nameHint = `(at most 253 letters, digits, "-", "_" and ".", the first and the last a letter or digit)`
	for text, want := range map[string]string{
		"hello":         `f: document 1, line 1: expected an object, got "hello"`,
		"[1, 2]":        `f: document 1, line 1: expected an object, got a list`,
		"a: b: c":       `f: document 1, line 1: not valid YAML: mapping values are not allowed in this context`,
		"a: b\n}":       `f: document 1, line 2: not valid YAML: did not find expected key`,
		"a: b\nc: \xff": `f: document 1: not valid YAML: invalid leading UTF-8 octet`,
		document("apiVersion: networking.istio.io/v1\n", ""):                                                                                       `f: document 1, line 1: VirtualService shop/reviews: apiVersion: required field is missing`,
		document("kind: VirtualService\n", ""):                                                                                                     `f: document 1, line 1: shop/reviews: kind: required field is missing`,
		document("  name: reviews\n", ""):                                                                                                          `f: document 1, line 3: VirtualService: metadata.name: required field is missing`,
		document("  name: reviews\n", "  name: ''\n"):                                                                                              `f: document 1, line 4: VirtualService: metadata.name: must not be empty`,
		document("  name: reviews\n", "  name: Re views_\n"):                                                                                       `f: document 1, line 4: VirtualService shop/Re views_: metadata.name: "Re views_" is not a valid name ` + nameHint,
		document("namespace: shop", "namespace: a.b"):                                                                                              `f: document 1, line 5: VirtualService a.b/reviews: metadata.namespace: "a.b" is not a valid namespace (at most 63 lower-case letters, digits and "-", the first and the last a letter or digit)`,
		document("metadata:\n  name: reviews\n  namespace: shop\n", "metadata: reviews\n"):                                                         `f: document 1, line 3: VirtualService: metadata: expected an object, got "reviews"`,
		"apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec: 5\n":                                                 `f: document 1, line 4: VirtualService default/a: spec: expected an object, got 5`,
		"apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\n":                                                            `f: document 1, line 1: ServiceEntry default/a: spec.hosts: required field is missing`,
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {}\ntype: Opaque\n":                                                              `f: document 1, line 2: Secret default/a: kind: unknown kind "Secret" (mcp-client secret list lists secrets)`,
		"apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: a, namespace: b}\nspec: {controllerName: example.com/a}\n": `f: document 1, line 3: GatewayClass b/a: metadata.namespace: a GatewayClass has no namespace (remove the namespace)`,
	} {
		documents, err := kinds.Parse("f", []byte(text))
		require.EqualError(t, err, want)
		require.Nil(t, documents)
	}
}

func TestMistakesInOtherKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, spec, want string }{
		{"se", `{"hosts": []}`, `spec.hosts: must have at least 1 item, has 0`},
		{"se", `{"hosts": ["a"], "resolution": "STATICC"}`, `spec.resolution: unknown value "STATICC" (did you mean "STATIC"?)`},
		{"se", `{"hosts": ["a"], "ports": [{"number": 66000, "name": "http"}]}`, `spec.ports[0].number: must be between 1 and 65535, got 66000`},
		{"se", `{"hosts": ["a"], "workloadSelector": {}, "endpoints": []}`, `spec: only one of workloadSelector, endpoints may be set`},
		{"dr", `{"host": ""}`, `spec.host: must not be empty`},
		{"dr", `{"host": "a", "trafficPolicy": {"loadBalancer": {"warmup": {"duration": "1s", "minimumPercent": 101}}}}`, `spec.trafficPolicy.loadBalancer.warmup.minimumPercent: must be between 0 and 100, got 101`},
		{"dr", `{"host": "a", "trafficPolicy": {"loadBalancer": {"simple": "RANDOM", "consistentHash": {}}}}`, `spec.trafficPolicy.loadBalancer: only one of simple, consistentHash may be set`},
		{"gw", `{}`, `spec.servers: required field is missing`},
		{"gw", `{"servers": [{"port": {"number": 80, "name": "a", "protocol": "HTTP"}, "hosts": []}]}`, `spec.servers[0].hosts: must have at least 1 item, has 0`},
		{"sidecars", `{"egress": [{"hosts": []}]}`, `spec.egress[0].hosts: must have at least 1 item, has 0`},
		{"pa", `{"portLevelMtls": {"http": {}}}`, `spec.portLevelMtls.http: key "http" is not an integer`},
		{"ra", `{"jwtRules": [{"issuer": ""}]}`, `spec.jwtRules[0].issuer: must not be empty`},
		{"envoyfilters", `{"configPatches": [{"patch": {"value": []}}]}`, `spec.configPatches[0].patch.value: expected an object, got a list`},
		{"wasmplugins", `{"url": "a", "sha256": "xyz"}`, `spec.sha256: does not match the pattern (^$|^[a-f0-9]{64}$), got "xyz"`},
		{"meshconfig", `{"conectTimeout": "1s"}`, `spec.conectTimeout: unknown field "conectTimeout" (did you mean "connectTimeout"?)`},
		{"httproute", `{"rules": [{"backendRefs": [{"name": "a", "port": 0}]}]}`, `spec.rules[0].backendRefs[0].port: must be between 1 and 65535, got 0`},
		{"httproute", `{"rules": [{"matches": [{"path": {"type": "Glob"}}]}]}`, `spec.rules[0].matches[0].path.type: unknown value "Glob" (one of Exact, PathPrefix, RegularExpression)`},
		{"gatewayclass", `{}`, `spec.controllerName: required field is missing`},
		{"inferencepool", `{"selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 1}]}`, `spec.endpointPickerRef: required field is missing`},
	} {
		k := kind(t, c.kind)
		_, err := k.Decode([]byte(c.spec))
		if err == nil { // what protobuf alone does not mind
			err = kinds.Errors(kinds.Validate(k, tree(t, c.spec), nil))
		}
		require.EqualError(t, err, k.Name+": "+c.want)
	}
}

func TestDuplicateNamesInOneFile(t *testing.T) {
	t.Parallel()
	_, err := kinds.Parse("f", []byte(document()+"---\n"+document("name: reviews", "name: other")+"---\n"+document("/v1", "/v1beta1")))
	require.EqualError(t, err, `f: document 3, line 36: VirtualService shop/reviews: metadata.name: duplicate of document 1, line 1`)
}

func TestDuplicateIsReportedDespiteOtherMistakes(t *testing.T) {
	t.Parallel()
	wrong := document("weight: 100", "wieght: 100")
	_, err := kinds.Parse("f", []byte(wrong+"---\n"+wrong))
	require.ErrorContains(t, err, `metadata.name: duplicate of document 1, line 1`)
	require.ErrorContains(t, err, `f: document 1, line 15`)
	require.ErrorContains(t, err, `f: document 2`)
}

func TestAllViolationsOfAllDocumentsAreReported(t *testing.T) {
	t.Parallel()
	_, err := kinds.Parse("f.yaml", []byte(document("weight: 100", "weight: -5", "hosts", "hots")+"---\n"+
		document("timeout", "limit", "name: reviews", "name: '-'")+"---\n}"))
	require.EqualError(t, err, strings.Join([]string{
		`f.yaml: document 1, line 7: VirtualService shop/reviews: spec.hots: unknown field "hots" (did you mean "hosts"?)`,
		`f.yaml: document 1, line 15: VirtualService shop/reviews: spec.http[0].route[0].weight: must be between 0 and 2147483647, got -5`,
		`f.yaml: document 2, line 20: VirtualService shop/-: metadata.name: "-" is not a valid name (at most 253 letters, digits, "-", "_" and ".", the first and the last a letter or digit)`,
		`f.yaml: document 2, line 27: VirtualService shop/-: spec.http[0].limit: unknown field "limit" (known fields: name, match, route, redirect, directResponse, delegate, rewrite, timeout, retries, fault, mirror, mirrors, mirrorPercent, mirrorPercentage, corsPolicy, headers)`,
		`f.yaml: document 3, line 33: not valid YAML: did not find expected node content`,
	}, "\n"))
}

func TestViolationsAreBounded(t *testing.T) {
	t.Parallel()
	text := document() + strings.Repeat("  - nme: x\n", 250)
	_, err := kinds.Parse("f", []byte(text))
	var violations kinds.Errors
	require.ErrorAs(t, err, &violations)
	require.Len(t, violations, 101)
	require.Equal(t, `f: 150 more violations are not shown`, violations[100].Error())
}

func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	bomb := &strings.Builder{}
	bomb.WriteString("a: &a [x, x, x, x, x, x, x, x, x, x]\n")
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(bomb, "%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 10), ", "))
	}
	_, err := kinds.Parse("f", []byte(bomb.String()))
	require.ErrorContains(t, err, "the aliases unfold to too many values (write the values out)")
	_, err = kinds.Parse("f", []byte("a: &a [*a]\n"))
	require.ErrorContains(t, err, "f: document 1, line 1: a[0][0]: the alias *a refers to itself")
}

// tree decodes JSON into the form that Validate takes.
func tree(t testing.TB, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	require.NoError(t, decoder.Decode(&v))
	return v
}
