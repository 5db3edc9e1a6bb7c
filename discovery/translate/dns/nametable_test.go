package dns_test

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/dns"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/kinds"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

const named = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec: {hosts: [reviews.shop.svc.cluster.local], addresses: [10.0.5.1, "fd00::5"], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: range, namespace: shop}
spec: {hosts: [range.example.com], addresses: [10.1.0.0/16], resolution: NONE, ports: [{number: 5000, name: tcp, protocol: TCP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: direct, namespace: shop}
spec:
  hosts: [direct.example.com]
  resolution: NONE
  location: MESH_INTERNAL
  ports: [{number: 5001, name: tcp, protocol: TCP}, {number: 5002, name: more, protocol: TCP}]
  workloadSelector: {labels: {app: direct}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: one, namespace: shop}
spec: {address: 10.0.7.7, labels: {app: direct}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: hidden, namespace: private}
spec: {hosts: [hidden.example.com], addresses: [10.9.9.9], exportTo: ["."], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: shop}
spec: {hosts: [api.example.com], resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
`

const (
	client = "sidecar~10.0.0.1~client.shop~shop.svc.cluster.local"
	router = "router~10.0.0.1~gateway.shop~shop.svc.cluster.local"
)

func tableOf(t *testing.T, resources, node string, metadata map[string]any) *ndsv1.NameTable {
	t.Helper()
	documents, err := kinds.Parse("names.yaml", []byte(resources))
	require.NoError(t, err)
	batch := kinds.Batch{Revision: 1}
	for _, d := range documents {
		batch.Changes = append(batch.Changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
	}
	given, err := structpb.NewStruct(metadata)
	require.NoError(t, err)
	proxy, err := mesh.ParseProxy(&corev3.Node{Id: node, Metadata: given})
	require.NoError(t, err)
	return dns.NameTable(view.Of(mesh.Build(configstore.New().Apply(batch), nil), proxy))
}

func TestHostsOfTheScopeAreNamed(t *testing.T) {
	t.Parallel()
	got := tableOf(t, named, client, nil)
	require.Empty(t, cmp.Diff(&ndsv1.NameTable{Table: map[string]*ndsv1.NameTable_NameInfo{
		"reviews.shop.svc.cluster.local": {Ips: []string{"10.0.5.1", "fd00::5"}, Registry: "External", Shortname: "reviews", Namespace: "shop", Ports: ports("http", 80)},
		"direct.example.com":             {Ips: []string{"10.0.7.7"}, Registry: "External", Ports: append(ports("tcp", 5001), ports("more", 5002)...)},
	}}, got, protocmp.Transform()))
	require.Nil(t, tableOf(t, named, router, nil), "applications ask sidecars")
}

func ports(name string, number uint32) []*ndsv1.NameTable_Port {
	return []*ndsv1.NameTable_Port{{Name: name, Number: number}}
}

// What a resolver says of UDP ports it says under another name.
func TestTwoEntriesForAHostHaveTheirPortsTogether(t *testing.T) {
	t.Parallel()
	const entry = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: shop}
spec: {hosts: [names.example.com], addresses: [10.0.6.%[2]d], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 53, name: dns, protocol: UDP}, {number: %[2]d, name: more, protocol: TCP}]}
---`
	got := tableOf(t, fmt.Sprintf(entry, "one", 54)+fmt.Sprintf(entry, "two", 55), client, nil)
	require.Empty(t, cmp.Diff([]*ndsv1.NameTable_Port{{Number: 54, Name: "more"}, {Number: 53, Name: "dns", Udp: true}, {Number: 55, Name: "more"}},
		got.GetTable()["names.example.com"].GetPorts(), protocmp.Transform()))
}

func TestAHostWithoutAnAddressIsGivenOne(t *testing.T) {
	t.Parallel()
	got := tableOf(t, named, client, map[string]any{"DNS_CAPTURE": "true"})
	require.Len(t, got.GetTable()["api.example.com"].GetIps(), 1)
	require.Contains(t, got.GetTable()["api.example.com"].GetIps()[0], "240.240.")
}

// Without redirection an allocated address leads nowhere. The proxy's own does, if requests name
// their host.
func TestWithoutRedirectionAHostHasTheProxysOwnAddress(t *testing.T) {
	t.Parallel()
	const entries = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec: {hosts: [web.mesh], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 8080, name: http, protocol: HTTP}, {number: 8081, name: grpc, protocol: GRPC}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: low, namespace: shop}
spec: {hosts: [low.mesh], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: mixed, namespace: shop}
spec: {hosts: [mixed.mesh], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 8080, name: http, protocol: HTTP}, {number: 22, name: ssh, protocol: TCP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: given, namespace: shop}
spec: {hosts: [given.mesh], addresses: [10.0.5.1], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 8080, name: http, protocol: HTTP}]}
`
	ips := func(metadata map[string]any) map[string][]string {
		out := map[string][]string{}
		for host, info := range tableOf(t, entries, client, metadata).GetTable() {
			out[host] = info.Ips
		}
		return out
	}
	none := map[string]any{"DNS_CAPTURE": "true", "INTERCEPTION_MODE": "NONE"}
	require.Equal(t, map[string][]string{"web.mesh": {"127.0.0.1"}, "low.mesh": {"127.0.0.1"}, "given.mesh": {"10.0.5.1"}}, ips(none))
	none["UNPRIVILEGED_POD"] = "true"
	require.NotContains(t, ips(none), "low.mesh", "its port cannot be opened")
	none["INSTANCE_IPS"] = "10.0.0.1,fd00::1"
	require.Equal(t, []string{"127.0.0.1", "::1"}, ips(none)["web.mesh"])
	require.Equal(t, map[string][]string{"given.mesh": {"10.0.5.1"}}, ips(map[string]any{"INTERCEPTION_MODE": "NONE"}), "the mesh resolves no names there")
}
