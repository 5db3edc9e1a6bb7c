package services_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/services"
)

const mesh = `
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: web, namespace: shop}, spec: {hosts: [Web.example.com, b.example.com], resolution: STATIC, location: MESH_INTERNAL, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.1, labels: {version: v1}}, {address: 10.0.0.2, weight: 3, locality: eu/a, labels: {mesh.pgmesh.io/health: unhealthy}}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: consul.web, namespace: shop, annotations: {pgmesh.io/origin: consul, pgmesh.io/origin-entry: web in dc1, pgmesh.io/origin-rank: "1"}}, spec: {hosts: [web.example.com], resolution: STATIC, ports: [{number: 80, name: http}], endpoints: [{address: 10.0.0.9}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: zoo.web, namespace: bank, annotations: {pgmesh.io/origin: zoo, pgmesh.io/origin-rank: "2"}}, spec: {hosts: [web.example.com], resolution: STATIC, ports: [{number: 81, name: http}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: cart, namespace: shop}, spec: {hosts: [cart.example.com], resolution: STATIC, workloadSelector: {labels: {app: cart}}}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: dns, namespace: shop}, spec: {hosts: [dns.example.com], resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: cart-1, namespace: shop, labels: {app: cart}, annotations: {mesh.pgmesh.io/health: "unknown"}}, spec: {address: 10.0.1.1}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: cart-2, namespace: shop}, spec: {address: 10.0.1.2, labels: {app: cart, version: v2}, ports: {http: 8080}, serviceAccount: cart}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: other, namespace: bank}, spec: {address: 10.0.1.3, labels: {app: cart}}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: east.set, namespace: shop, annotations: {pgmesh.io/origin: east, pgmesh.io/origin-rank: "3", pgmesh.io/origin-set: shops}}, spec: {hosts: [set.example.com], resolution: STATIC, endpoints: [{address: 10.0.2.1}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: alone.set, namespace: shop, annotations: {pgmesh.io/origin: alone, pgmesh.io/origin-rank: "4"}}, spec: {hosts: [set.example.com], resolution: STATIC, endpoints: [{address: 10.0.2.2}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: west.set, namespace: shop, annotations: {pgmesh.io/origin: west, pgmesh.io/origin-rank: "5", pgmesh.io/origin-set: shops, mesh.pgmesh.io/workload-selector: "app=cart,version=v2"}}, spec: {hosts: [set.example.com], resolution: STATIC, endpoints: [{address: 10.0.2.3}]}}
`

func TestServicesAreWorkedOutFromResources(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("mesh.yaml", []byte(mesh))
	require.NoError(t, err)
	var resources []*kinds.Resource
	for _, d := range documents {
		resources = append(resources, d.Resource)
	}
	found, err := services.Of(resources)
	require.NoError(t, err)
	var lines []string
	for _, s := range found {
		lines = append(lines, fmt.Sprint(s.Host, " ", s.Namespace, "/", s.Name, " ", s.Origin, " ", s.InEffect, " ", s.PortList(), " ", s.Healthy(), " of ", len(s.Endpoints)))
		for _, e := range s.Endpoints {
			text, err := json.Marshal(e)
			require.NoError(t, err)
			lines = append(lines, string(text))
		}
	}
	require.Equal(t, []string{
		"b.example.com shop/web  true 80/HTTP 1 of 2",
		`{"address":"10.0.0.1","health":"healthy","weight":1,"labels":{"version":"v1"}}`,
		`{"address":"10.0.0.2","health":"unhealthy","weight":3,"locality":"eu/a"}`,
		"cart.example.com shop/cart  true  1 of 2",
		`{"address":"10.0.1.1","health":"unknown","weight":1,"labels":{"app":"cart"},"workload":"cart-1"}`,
		`{"address":"10.0.1.2","health":"healthy","ports":{"http":8080},"weight":1,"serviceAccount":"cart","labels":{"app":"cart","version":"v2"},"workload":"cart-2"}`,
		"dns.example.com shop/dns  true 443/TLS 1 of 1",
		`{"address":"dns.example.com","health":"healthy"}`,
		"set.example.com shop/east.set east true  1 of 1",
		`{"address":"10.0.2.1","health":"healthy","weight":1}`,
		"set.example.com shop/alone.set alone false  1 of 1",
		`{"address":"10.0.2.2","health":"healthy","weight":1}`,
		"set.example.com shop/west.set west true  2 of 2",
		`{"address":"10.0.2.3","health":"healthy","weight":1}`,
		`{"address":"10.0.1.2","health":"healthy","ports":{"http":8080},"weight":1,"serviceAccount":"cart","labels":{"app":"cart","version":"v2"},"workload":"cart-2"}`,
		"web.example.com bank/zoo.web zoo true 81 0 of 0",
		"web.example.com shop/web  true 80/HTTP 1 of 2",
		`{"address":"10.0.0.1","health":"healthy","weight":1,"labels":{"version":"v1"}}`,
		`{"address":"10.0.0.2","health":"unhealthy","weight":3,"locality":"eu/a"}`,
		"web.example.com shop/consul.web consul false 80 1 of 1",
		`{"address":"10.0.0.9","health":"healthy","weight":1}`,
	}, lines)
}
