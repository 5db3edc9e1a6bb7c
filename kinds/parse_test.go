package kinds_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// everyKind has one document of each kind, exactly as MarshalYAML writes it.
func everyKind(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/every-kind.yaml")
	require.NoError(t, err)
	return data
}

func resources(documents []*kinds.Document) []*kinds.Resource {
	var rs []*kinds.Resource
	for _, d := range documents {
		rs = append(rs, d.Resource)
	}
	return rs
}

func TestEveryKindParses(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("every-kind.yaml", everyKind(t))
	require.NoError(t, err)
	seen := map[*kinds.Kind]bool{}
	for i, d := range documents {
		seen[d.Resource.Kind] = true
		require.Equal(t, i+1, d.Index)
		decoded, err := d.Resource.Kind.Decode(d.Spec)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(d.Resource.Spec.Message(), decoded, protocmp.Transform()))
	}
	for _, k := range kinds.All() {
		require.True(t, seen[k], "testdata has no %s", k.TypeURL())
	}
}

func TestParseReadsAllParts(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("f.yaml", []byte(`# a comment, and then nothing
---
# another
---
apiVersion: networking.istio.io/v1beta1
kind: VirtualService
metadata:
  name: reviews
  labels: {app: reviews, enabled: "true"}
  annotations:
    example.com/note: on
  creationTimestamp: 2025-03-01T12:00:00Z
  resourceVersion: "12"
  managedFields: [{manager: kubectl}]
spec:
  hosts: [reviews]
  http:
  - route:
    - destination: {host: reviews}
      weight: 0
    timeout: 1m30s
    direct_response: null
status: {observedGeneration: 1}
`))
	require.NoError(t, err)
	require.Len(t, documents, 1)
	want := &kinds.Document{
		File: "f.yaml", Index: 2, Line: 5, ResourceVersion: "12",
		Spec: json.RawMessage(`{"hosts":["reviews"],"http":[{"route":[{"destination":{"host":"reviews"},"weight":0}],"timeout":"90s"}]}`),
		Resource: &kinds.Resource{
			Kind: kind(t, "vs"), Namespace: "default", Name: "reviews",
			Labels:      map[string]string{"app": "reviews", "enabled": "true"},
			Annotations: map[string]string{"example.com/note": "on"},
			CreateTime:  time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC),
		},
	}
	spec := documents[0].Resource.Spec.Message().(*networking.VirtualService)
	require.Equal(t, 90*time.Second, spec.Http[0].Timeout.AsDuration())
	want.Resource.Spec = kinds.SpecOf(spec)
	require.Empty(t, cmp.Diff(want, documents[0], protocmp.Transform(), cmp.Comparer(sameKind)))
}

func TestParseDefaultNamespace(t *testing.T) {
	t.Parallel()
	text := []byte("{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {name: a}}\n---\n" +
		"{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: a}, spec: {controllerName: example.com/a}}")
	documents, err := kinds.Parser{DefaultNamespace: "shop"}.Parse("f", text)
	require.NoError(t, err)
	require.Equal(t, "PeerAuthentication shop/a", documents[0].Resource.Key().String())
	require.Equal(t, "GatewayClass a", documents[1].Resource.Key().String())

	_, err = kinds.Parser{}.Parse("f", text)
	require.EqualError(t, err, `f: document 1, line 1: PeerAuthentication a: metadata.namespace: must not be empty`)
}

func TestParseJSON(t *testing.T) {
	t.Parallel()
	text := "{\n\t\"apiVersion\": \"networking.istio.io/v1\",\n\t\"kind\": \"WorkloadEntry\",\n\t\"metadata\": {\"name\": \"a\", \"annotations\": {\"note\": \"\\ud83d\\ude00 \\/\"}},\n\t\"spec\": {\"address\": \"1.2.3.4\", \"weight\": 7}\n}\n"
	documents, err := kinds.Parse("f.json", []byte(text+strings.ReplaceAll(text, `"a"`, `"b"`)))
	require.NoError(t, err)
	require.Len(t, documents, 2)
	require.Equal(t, "😀 /", documents[0].Resource.Annotations["note"])
	require.Equal(t, 7, documents[1].Line)
	require.JSONEq(t, `{"address": "1.2.3.4", "weight": 7}`, string(documents[0].Spec))

	_, err = kinds.Parse("f.json", []byte(strings.Replace(text, "7", `"x"`, 1)))
	require.EqualError(t, err, `f.json: document 1, line 5: WorkloadEntry default/a: spec.weight: expected an integer, got "x"`)
}

func TestParseLists(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("f", []byte(`
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- {apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: a}, spec: {address: 1.2.3.4}}
- {apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: b}, spec: {address: 1.2.3.4}}
`))
	require.NoError(t, err)
	require.Len(t, documents, 2)
	require.Equal(t, 6, documents[0].Line)
	require.Equal(t, 1, documents[1].Index)
}

func TestParseNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n---\n", "null"} {
		documents, err := kinds.Parse("f", []byte(text))
		require.NoError(t, err, "%q", text)
		require.Empty(t, documents, "%q", text)
	}
}

func TestParseAliasesAndMerges(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("f", []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a}
spec:
  hosts: &hosts [a.example.com]
  subjectAltNames: *hosts
  ports:
  - &port {number: 80, name: http, protocol: HTTP}
  - <<: *port
    number: 8080
    name: second
`))
	require.NoError(t, err)
	require.JSONEq(t, `{"hosts": ["a.example.com"], "subjectAltNames": ["a.example.com"], "ports": [
		{"number": 80, "name": "http", "protocol": "HTTP"}, {"number": 8080, "name": "second", "protocol": "HTTP"}]}`,
		string(documents[0].Spec))
}

func TestParseTakesWhatProtobufTakes(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("f", []byte(`
apiVersion: security.istio.io/v1beta1
kind: PeerAuthentication
metadata: {name: a}
spec:
  selector: {match_labels: {app: on}}
  mtls: {mode: 3}
  port_level_mtls:
    8080: {mode: DISABLE}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a}
spec:
  host: a
  trafficPolicy:
    connectionPool: {tcp: {maxConnections: "0x10", connectTimeout: 5}}
`))
	require.EqualError(t, err, `f: document 2, line 17: DestinationRule default/a: spec.trafficPolicy.connectionPool.tcp.maxConnections: expected an integer, got "0x10"`)
	require.Nil(t, documents)

	documents, err = kinds.Parse("f", []byte(`
apiVersion: security.istio.io/v1beta1
kind: PeerAuthentication
metadata: {name: a}
spec:
  selector: {match_labels: {app: on}}
  mtls: {mode: 3}
  port_level_mtls:
    8080: {mode: DISABLE}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a}
spec:
  host: a
  trafficPolicy:
    connectionPool: {tcp: {maxConnections: 0x10, connectTimeout: 5}, http: {maxRetries: "3"}}
`))
	require.NoError(t, err)
	require.JSONEq(t, `{"mtls":{"mode":"STRICT"},"portLevelMtls":{"8080":{"mode":"DISABLE"}},"selector":{"matchLabels":{"app":"on"}}}`, string(documents[0].Spec))
	require.JSONEq(t, `{"host":"a","trafficPolicy":{"connectionPool":{"http":{"maxRetries":3},"tcp":{"connectTimeout":"5s","maxConnections":16}}}}`, string(documents[1].Spec))
}

func TestDecodeTakesWhatParseTakes(t *testing.T) {
	t.Parallel()
	spec, err := kind(t, "vs").Decode([]byte(`{"hosts": ["a"], "http": [{"timeout": "1m", "direct_response": {"status": "200"}}]}`))
	require.NoError(t, err)
	require.Equal(t, time.Minute, spec.(*networking.VirtualService).Http[0].Timeout.AsDuration())
	require.EqualValues(t, 200, spec.(*networking.VirtualService).Http[0].GetDirectResponse().GetStatus())

	_, err = kind(t, "vs").Decode([]byte(`{"hots": ["a"]}`))
	require.EqualError(t, err, `VirtualService: spec.hots: unknown field "hots" (did you mean "hosts"?)`)
	_, err = kind(t, "httproute").Decode([]byte(`{"hostname": ["a"]}`))
	require.EqualError(t, err, `HTTPRoute: spec.hostname: unknown field "hostname" (did you mean "hostnames"?)`)
	_, err = kind(t, "vs").Decode([]byte(`{`))
	require.EqualError(t, err, `decode the spec of a VirtualService: unexpected EOF`)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a]}\n"))
	f.Add([]byte(`{"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication", "metadata": {"name": "a"}}`))
	f.Add([]byte("a: &a [*a]\n---\n<<: [*a, {b: !!binary x}]\n"))
	f.Add([]byte("kind: List\nitems: [1, {}, null]\n"))
	for document := range strings.SplitSeq(string(everyKind(f)), "---\n") {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		documents, err := kinds.Parse("f", data)
		if err != nil {
			require.ErrorAs(t, err, new(kinds.Errors))
			require.NotEmpty(t, err.Error())
			return
		}
		written, err := kinds.MarshalYAML(resources(documents)...)
		require.NoError(t, err)
		again, err := kinds.Parse("again", written)
		require.NoError(t, err, "%s", written)
		require.Empty(t, cmp.Diff(resources(documents), resources(again), protocmp.Transform(), cmp.Comparer(sameKind)))
	})
}

// A document read from the admin API can be sent back unchanged, with its resource version.
func TestResourceVersionsAreKept(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{`"12"`: "12", "12": "12", "null": "", `"a1b2"`: "a1b2"} {
		documents, err := kinds.Parse("", []byte(`{"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "metadata": {"name": "x", "generation": 3,
			"resourceVersion": `+written+`, "updateTimestamp": "2026-05-01T12:00:00Z"}, "spec": {"host": "a"}}`))
		require.NoError(t, err)
		require.Equal(t, want, documents[0].ResourceVersion)
	}
}
