package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store/problems"
	"github.com/pgmesh/pgmesh/store/resources"
)

// create writes a resource, "Kind namespace/name". Of two kinds of one name it is Istio's, unless
// the group is given: "Gateway.gateway.networking.k8s.io".
func (s session) create(kind, namespace, name, spec string) {
	s.T.Helper()
	s.Exec(`INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) SELECT api_group, kind, $2, $3, $4 FROM mesh.kinds WHERE $1 IN (kind, kind || '.' || api_group)
		ORDER BY api_group <> 'networking.istio.io' LIMIT 1`, kind, namespace, name, spec)
}

const (
	reviews = `{"hosts": ["reviews.default.svc.cluster.local"], "resolution": "STATIC", "location": "MESH_INTERNAL",
		"ports": [{"number": 9080, "name": "http", "protocol": "HTTP"}], "endpoints": [{"address": "10.0.0.1", "labels": {"version": "v1"}}]}`
	subsets = `{"host": "reviews", "subsets": [{"name": "v1", "labels": {"version": "v1"}}]}`
)

func route(host, destination string) string {
	return fmt.Sprintf(`{"hosts": ["%s"], "http": [{"route": [{"destination": %s}]}]}`, host, destination)
}

// matching is a route with one match.
func matching(conditions string) string {
	return `{"match": [{` + conditions + `}], "route": [{"destination": {"host": "reviews"}}]}`
}

// forService is a route of the Gateway API for a service.
func forService(parent string) string {
	return fmt.Sprintf(`{"parentRefs": [%s], "rules": [{}]}`, parent)
}

// overTLS is a Gateway with one server, at(…) a ServiceEntry with one address.
func overTLS(protocol, mode, host string) string {
	credential := ""
	if mode == "SIMPLE" {
		credential = `, "serverCertificate": "/etc/tls.crt", "privateKey": "/etc/tls.key"`
	}
	return fmt.Sprintf(`{"selector": {"app": "gw"}, "servers": [{"port": {"number": 443, "name": "p", "protocol": "%s"}, "hosts": ["%s"], "tls": {"mode": "%s"%s}}]}`,
		protocol, host, mode, credential)
}

// more is a ServiceEntry for the host of reviews, with another port.
func more(rest string) string {
	return `{"hosts": ["reviews.default.svc.cluster.local"], "resolution": "STATIC", "location": "MESH_INTERNAL", "ports": [{"number": 9090, "name": "more", "protocol": "HTTP"}], ` + rest + `}`
}

func at(address, protocol, host string) string {
	return fmt.Sprintf(`{"hosts": ["%s"], "addresses": ["%s"], "resolution": "DNS", "ports": [{"number": 80, "name": "p", "protocol": "%s"}]}`, host, address, protocol)
}

// found lists the problems as "severity code kind namespace/name path".
func (s session) found(query string) []string {
	s.T.Helper()
	rows, err := s.Conn.Query(s.T.Context(), `SELECT concat_ws(' ', severity, code, kind, namespace || '/' || name, path) FROM mesh.problems `+query+` ORDER BY 1`)
	require.NoError(s.T, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.T, err)
	return list
}

func TestProblems(t *testing.T) {
	t.Parallel()
	type resource struct{ kind, namespace, name, spec string }
	base := []resource{{"ServiceEntry", "default", "reviews", reviews}, {"DestinationRule", "default", "reviews", subsets}}
	gateway := func(protocol, hosts string) string {
		return fmt.Sprintf(`{"selector": {"app": "gw"}, "servers": [{"port": {"number": 80, "name": "p", "protocol": "%s"}, "hosts": ["%s"]}]}`, protocol, hosts)
	}
	for name, test := range map[string]struct {
		resources []resource
		want      []string
	}{
		"all is well": {[]resource{{"VirtualService", "default", "a", route("reviews", `{"host": "reviews", "subset": "v1", "port": {"number": 9080}}`)}}, nil},
		"unknown host": {
			[]resource{{"VirtualService", "default", "a", route("reviews", `{"host": "rewiews"}`)}},
			[]string{"error unknown-host VirtualService default/a spec.http[0].route[0].destination.host"},
		},
		"a short name is one of the namespace": {
			[]resource{{"VirtualService", "other", "a", route("a.example.com", `{"host": "reviews"}`)}},
			[]string{"error unknown-host VirtualService other/a spec.http[0].route[0].destination.host"},
		},
		"a host that is not exported": {
			[]resource{
				{"ServiceEntry", "default", "b", `{"hosts": ["b.example.com"], "resolution": "DNS", "exportTo": ["."], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}`},
				{"VirtualService", "other", "a", route("a.example.com", `{"host": "b.example.com"}`)},
				{"VirtualService", "default", "a", route("a.example.com", `{"host": "b.example.com"}`)},
			},
			[]string{
				"error host-conflict VirtualService default/a spec.hosts[0]", "error host-conflict VirtualService other/a spec.hosts[0]",
				"error unknown-host VirtualService other/a spec.http[0].route[0].destination.host",
			},
		},
		"a wildcard alone has the host": {
			[]resource{
				{"ServiceEntry", "default", "b", `{"hosts": ["*.example.com"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}`},
				{"VirtualService", "default", "a", route("a.example.com", `{"host": "x.y.example.com"}`)},
				{"VirtualService", "default", "b", route("b.example.com", `{"host": "*.example.com"}`)},
			},
			[]string{"error unknown-host VirtualService default/a spec.http[0].route[0].destination.host"},
		},
		"unknown port, mirrored": {
			[]resource{{"VirtualService", "default", "a", `{"hosts": ["reviews"], "http": [{"route": [{"destination": {"host": "reviews"}}], "mirror": {"host": "reviews", "port": {"number": 81}}}]}`}},
			[]string{"error unknown-port VirtualService default/a spec.http[0].mirror.port.number"},
		},
		"one of several ports": {
			[]resource{
				{"ServiceEntry", "default", "b", `{"hosts": ["b.example.com"], "resolution": "DNS", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}, {"number": 81, "name": "more", "protocol": "HTTP"}]}`},
				{"VirtualService", "default", "a", route("a.example.com", `{"host": "b.example.com"}`)},
			},
			[]string{"error ambiguous-port VirtualService default/a spec.http[0].route[0].destination"},
		},
		"unknown subset": {
			[]resource{{"VirtualService", "default", "a", route("reviews", `{"host": "reviews", "subset": "v9"}`)}},
			[]string{"error unknown-subset VirtualService default/a spec.http[0].route[0].destination.subset"},
		},
		"a subset of a namespace whose rules do not count": {
			[]resource{
				{"DestinationRule", "third", "b", `{"host": "reviews.default.svc.cluster.local", "subsets": [{"name": "v3", "labels": {"version": "v1"}}]}`},
				{"VirtualService", "default", "a", route("reviews", `{"host": "reviews", "subset": "v3"}`)},
			},
			[]string{"error unknown-subset VirtualService default/a spec.http[0].route[0].destination.subset"},
		},
		"a subset of the root namespace": {[]resource{
			{"DestinationRule", "istio-system", "b", `{"host": "*.svc.cluster.local", "subsets": [{"name": "v3", "labels": {"version": "v1"}}]}`},
			{"VirtualService", "default", "a", route("reviews", `{"host": "reviews", "subset": "v3"}`)},
		}, nil},
		"an empty subset": {
			[]resource{{"DestinationRule", "default", "b", `{"host": "reviews", "subsets": [{"name": "v2", "labels": {"version": "v2"}}]}`}},
			[]string{"warning empty-subset DestinationRule default/b spec.subsets[0].labels"},
		},
		"workloads are chosen by where they are": {
			[]resource{
				{"WorkloadEntry", "default", "w", `{"address": "10.0.0.9", "network": "east", "locality": "eu/a/rack1"}`},
				{"ServiceEntry", "default", "b", `{"hosts": ["b.example.com"], "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "workloadSelector": {"labels": {"topology.istio.io/network": "east", "topology.kubernetes.io/region": "eu"}}}`},
				{"ServiceEntry", "default", "c", `{"hosts": ["c.example.com"], "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "endpoints": [{"address": "10.0.0.8", "network": "west"}]}`},
				{"DestinationRule", "default", "c", `{"host": "c.example.com", "subsets": [{"name": "west", "labels": {"topology.istio.io/network": "west"}}, {"name": "east", "labels": {"topology.istio.io/network": "east"}}]}`},
				{"Sidecar", "default", "rack", `{"workloadSelector": {"labels": {"topology.kubernetes.io/zone": "a", "topology.istio.io/subzone": "rack1"}}, "egress": [{"hosts": ["./*"]}]}`},
			},
			[]string{"warning empty-subset DestinationRule default/c spec.subsets[1].labels"},
		},
		"a rule over no host": {
			[]resource{{"DestinationRule", "default", "b", `{"host": "nobody"}`}},
			[]string{"warning unknown-host DestinationRule default/b spec.host"},
		},
		"gateways": {
			[]resource{
				{"Gateway", "default", "gw", gateway("HTTP", "shop.example.com")},
				{"VirtualService", "default", "a", `{"hosts": ["a.example.com"], "gateways": ["gw", "default/gone", "mesh"], "http": [{"route": [{"destination": {"host": "reviews"}}]}]}`},
			},
			[]string{
				"error unknown-gateway VirtualService default/a spec.gateways[1]", "info selects-nothing Gateway default/gw spec.selector",
				"warning host-not-in-gateway VirtualService default/a spec.gateways[0]",
			},
		},
		"gateways that fight": {
			[]resource{
				{"Gateway", "default", "a", gateway("HTTP", "shop.example.com")},
				{"Gateway", "other", "b", gateway("HTTP", "shop.example.com")},
				{"Gateway", "other", "c", gateway("TCP", "*")},
			},
			[]string{
				"info gateway-conflict Gateway default/a spec.servers[0].hosts[0]", "info gateway-conflict Gateway other/b spec.servers[0].hosts[0]",
				"error port-conflict Gateway default/a spec.servers[0].port.protocol", "error port-conflict Gateway other/b spec.servers[0].port.protocol",
				"error port-conflict Gateway other/c spec.servers[0].port.protocol",
				"info selects-nothing Gateway default/a spec.selector", "info selects-nothing Gateway other/b spec.selector", "info selects-nothing Gateway other/c spec.selector",
			},
		},
		"plain TCP on one port of two gateways": {
			[]resource{
				{"Gateway", "default", "a", gateway("TCP", "a.example.com")},
				{"Gateway", "other", "b", gateway("MONGO", "b.example.com")},
				{"Gateway", "other", "c", `{"selector": {"app": "elsewhere"}, "servers": [{"port": {"number": 80, "name": "p", "protocol": "TCP"}, "hosts": ["*"]}]}`},
			},
			[]string{
				"error port-conflict Gateway default/a spec.servers[0].port.protocol", "error port-conflict Gateway other/b spec.servers[0].port.protocol",
				"info selects-nothing Gateway default/a spec.selector", "info selects-nothing Gateway other/b spec.selector", "info selects-nothing Gateway other/c spec.selector",
			},
		},
		"server names of two gateways": {
			[]resource{
				{"Gateway", "default", "a", overTLS("HTTPS", "SIMPLE", "./*")},
				{"Gateway", "other", "b", overTLS("HTTPS", "SIMPLE", "./*")},
				{"Gateway", "default", "c", overTLS("TLS", "PASSTHROUGH", "./p.example.com")},
				{"Gateway", "other", "d", overTLS("TLS", "PASSTHROUGH", "./p.example.com")},
			},
			[]string{
				"error gateway-conflict Gateway default/a spec.servers[0].hosts[0]", "error gateway-conflict Gateway other/b spec.servers[0].hosts[0]",
				"info selects-nothing Gateway default/a spec.selector", "info selects-nothing Gateway default/c spec.selector", "info selects-nothing Gateway other/b spec.selector",
				"info selects-nothing Gateway other/d spec.selector",
			},
		},
		"HTTP and TCP at one address": {
			[]resource{
				{"ServiceEntry", "default", "h", at("10.9.0.1", "HTTP", "h.example.com")},
				{"ServiceEntry", "other", "t", at("10.9.0.1", "TCP", "t.example.com")},
				{"ServiceEntry", "default", "h2", at("10.9.0.2", "HTTP", "h.example.net")},
				{"ServiceEntry", "other", "g", at("10.9.0.2", "GRPC", "g.example.net")},
				{"ServiceEntry", "default", "s", at("10.9.0.3", "TLS", "s.example.org")},
				{"ServiceEntry", "other", "t3", at("10.9.0.3", "TCP", "t.example.org")},
				{"ServiceEntry", "default", "t4", at("10.9.0.4", "TCP", "4.example.com")},
				{"ServiceEntry", "other", "t5", at("10.9.0.4", "TCP", "5.example.com")},
				{"ServiceEntry", "default", "s6", at("10.9.0.5", "TLS", "6.example.com")},
				{"ServiceEntry", "other", "m", at("10.9.0.5", "MYSQL", "7.example.com")},
			},
			[]string{
				"warning address-conflict ServiceEntry default/h spec.addresses[0]", "warning address-conflict ServiceEntry other/t spec.addresses[0]",
				"warning address-conflict ServiceEntry default/t4 spec.addresses[0]", "warning address-conflict ServiceEntry other/t5 spec.addresses[0]",
				"warning address-conflict ServiceEntry default/s6 spec.addresses[0]", "warning address-conflict ServiceEntry other/m spec.addresses[0]",
			},
		},
		"delegates": {
			[]resource{
				{"VirtualService", "default", "d", `{"http": [{"route": [{"destination": {"host": "reviews"}}]}]}`},
				{"VirtualService", "default", "a", `{"hosts": ["a.example.com"], "http": [{"match": [{"uri": {"prefix": "/x"}}], "delegate": {"name": "d"}}, {"delegate": {"name": "e", "namespace": "other"}}]}`},
			},
			[]string{"error unknown-delegate VirtualService default/a spec.http[1].delegate"},
		},
		"a delegate of nobody": {
			[]resource{
				{"VirtualService", "default", "d", `{"http": [{"route": [{"destination": {"host": "reviews"}}]}]}`},
				{"VirtualService", "default", "e", `{"hosts": [], "exportTo": ["."], "http": [{"route": [{"destination": {"host": "reviews"}}]}]}`},
				{"VirtualService", "other", "a", `{"hosts": ["a.example.com"], "http": [{"delegate": {"name": "d", "namespace": "default"}}]}`},
				{"VirtualService", "other", "d", `{"http": [{"route": [{"destination": {"host": "reviews.default.svc.cluster.local"}}]}]}`},
			},
			[]string{"info unused-delegate VirtualService default/e spec.hosts", "info unused-delegate VirtualService other/d spec.hosts"},
		},
		"two owners of a host": {
			[]resource{
				{"VirtualService", "default", "a", route("reviews", `{"host": "reviews"}`)},
				{"VirtualService", "other", "b", route("reviews.default.svc.cluster.local", `{"host": "reviews.default.svc.cluster.local"}`)},
				{"VirtualService", "third", "c", `{"hosts": ["x.example.com"], "exportTo": ["."], "http": [{"route": [{"destination": {"host": "reviews.default.svc.cluster.local"}}]}]}`},
				{"VirtualService", "fourth", "d", `{"hosts": ["x.example.com"], "exportTo": ["."], "http": [{"route": [{"destination": {"host": "reviews.default.svc.cluster.local"}}]}]}`},
			},
			[]string{
				"error captured-host VirtualService other/b spec.hosts[0]",
				"error host-conflict VirtualService default/a spec.hosts[0]", "error host-conflict VirtualService other/b spec.hosts[0]",
			},
		},
		"a rule and routes for a host": {
			[]resource{
				{"VirtualService", "default", "a", route("reviews", `{"host": "reviews"}`)},
				{"HTTPRoute", "default", "r", forService(`{"group": "networking.istio.io", "kind": "ServiceEntry", "name": "reviews"}`)},
				{"GRPCRoute", "third", "s", forService(`{"group": "", "kind": "Service", "name": "reviews", "namespace": "default"}`)},
				// Neither is for the same clients, nor for the same requests.
				{"ServiceEntry", "default", "mine", at("10.9.0.1", "HTTP", "mine.example.com")},
				{"VirtualService", "other", "mine", `{"hosts": ["mine.example.com"], "exportTo": ["."], "http": [{"route": [{"destination": {"host": "mine.example.com"}}]}]}`},
				{"HTTPRoute", "third", "mine", forService(`{"group": "networking.istio.io", "kind": "ServiceEntry", "name": "mine", "namespace": "default"}`)},
				{"ServiceEntry", "default", "tcp", at("10.9.0.2", "TCP", "tcp.example.com")},
				{"VirtualService", "default", "tcp", `{"hosts": ["tcp.example.com"], "tcp": [{"route": [{"destination": {"host": "tcp.example.com"}}]}]}`},
				{"HTTPRoute", "default", "tcp", forService(`{"group": "networking.istio.io", "kind": "ServiceEntry", "name": "tcp"}`)},
			},
			[]string{
				"warning routed-twice GRPCRoute third/s spec.parentRefs[0]", "warning routed-twice HTTPRoute default/r spec.parentRefs[0]",
				"warning routed-twice VirtualService default/a spec.hosts[0]", "warning routed-twice VirtualService default/a spec.hosts[0]",
			},
		},
		"two entries for a host": {
			[]resource{
				{"ServiceEntry", "default", "b", `{"hosts": ["reviews.default.svc.cluster.local"], "resolution": "DNS", "location": "MESH_INTERNAL", "ports": [{"number": 9080, "name": "tcp", "protocol": "TCP"}]}`},
				{"ServiceEntry", "other", "c", reviews},
			},
			[]string{
				"warning conflicting-protocols ServiceEntry default/b spec.hosts[0]", "warning conflicting-protocols ServiceEntry default/reviews spec.hosts[0]",
				"warning conflicting-protocols ServiceEntry other/c spec.hosts[0]",
				"warning conflicting-services ServiceEntry default/b spec.hosts[0]", "warning conflicting-services ServiceEntry default/reviews spec.hosts[0]",
				"warning duplicate-service ServiceEntry default/b spec.hosts[0]", "warning duplicate-service ServiceEntry default/reviews spec.hosts[0]",
				"warning duplicate-service ServiceEntry other/c spec.hosts[0]",
			},
		},
		"entries of a host that proxies do not merge": {
			[]resource{
				{"ServiceEntry", "default", "b", more(`"workloadSelector": {"labels": {"app": "reviews"}}`)},
				{"ServiceEntry", "other", "a", more(`"exportTo": ["*"]`)},
				{"ServiceEntry", "other", "b", more(`"exportTo": ["."]`)}, // that no port is added by
			},
			[]string{
				"info selects-nothing ServiceEntry default/b spec.workloadSelector.labels",
				"warning conflicting-services ServiceEntry default/b spec.hosts[0]", "warning conflicting-services ServiceEntry default/reviews spec.hosts[0]",
				"warning duplicate-service ServiceEntry default/b spec.hosts[0]", "warning duplicate-service ServiceEntry default/reviews spec.hosts[0]",
				"warning duplicate-service ServiceEntry other/a spec.hosts[0]", "warning duplicate-service ServiceEntry other/b spec.hosts[0]",
			},
		},
		"two rules over a host": {
			[]resource{{"DestinationRule", "default", "b", subsets}},
			[]string{"warning duplicate-subset DestinationRule default/b spec.subsets[0].name", "warning duplicate-subset DestinationRule default/reviews spec.subsets[0].name"},
		},
		"two defaults": {
			[]resource{{"Sidecar", "default", "a", `{"egress": [{"hosts": ["./*"]}]}`}, {"Sidecar", "default", "b", `{"egress": [{"hosts": ["./*"]}]}`}, {"Sidecar", "other", "c", `{"egress": [{"hosts": ["./*"]}]}`}},
			[]string{"error duplicate-default Sidecar default/a metadata.name", "error duplicate-default Sidecar default/b metadata.name"},
		},
		"weights that look like a slip": {
			[]resource{
				{"VirtualService", "default", "a", `{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "reviews"}, "weight": 90}, {"destination": {"host": "reviews"}, "weight": 10}]},
					{"route": [{"destination": {"host": "reviews"}, "weight": 900}, {"destination": {"host": "reviews"}, "weight": 10}]}]}`},
				{"VirtualService", "default", "b", `{"hosts": ["b"], "http": [{"route": [{"destination": {"host": "reviews"}, "weight": 900}, {"destination": {"host": "reviews"}, "weight": 100}]},
					{"route": [{"destination": {"host": "reviews"}, "weight": 1}, {"destination": {"host": "reviews"}, "weight": 2}]}, {"route": [{"destination": {"host": "reviews"}, "weight": 500}]}]}`},
			},
			[]string{
				"info uneven-weights VirtualService default/a spec.http[1].route", "warning unreachable-route VirtualService default/a spec.http[1]",
				"warning unreachable-route VirtualService default/b spec.http[1]", "warning unreachable-route VirtualService default/b spec.http[2]",
			},
		},
		"routes that are never reached": {
			[]resource{
				{"VirtualService", "default", "a", `{"hosts": ["a"], "http": [` + matching(`"uri": {"prefix": "/a"}`) + `, ` + matching(`"uri": {"exact": "/a/b"}, "headers": {"x": {"exact": "y"}}`) + `,
					` + matching(`"uri": {"prefix": "/A"}`) + `, ` + matching(`"uri": {"prefix": "/a"}, "ignoreUriCase": true`) + `, ` + matching(`"uri": {"exact": "/"}`) + `,
					` + matching(`"uri": {"prefix": "/"}`) + `, ` + matching(`"uri": {"regex": "/x+"}`) + `, ` + matching("") + `]}`},
				{"VirtualService", "default", "b", `{"hosts": ["b"], "http": [` + matching(`"headers": {"x": {}}, "withoutHeaders": {"y": {}}`) + `, ` + matching(`"headers": {"x": {"exact": "1"}, "z": {}}, "withoutHeaders": {"y": {}}`) + `,
					` + matching(`"headers": {"x": {}}, "withoutHeaders": {"y": {}, "z": {}}`) + `, ` + matching(`"headers": {"x": {}}`) + `, ` + matching(`"gateways": ["mesh"]`) + `, ` + matching("") + `]}`},
				{"VirtualService", "default", "c", `{"hosts": ["c"], "tcp": [{"match": [{"port": 1}], "route": [{"destination": {"host": "reviews"}}]}, {"match": [{"port": 1}, {"port": 2}], "route": [{"destination": {"host": "reviews"}}]},
					{"match": [{"port": 2}, {"port": 1}], "route": [{"destination": {"host": "reviews"}}]}]}`},
				{"VirtualService", "default", "d", `{"hosts": ["d"], "http": [{"delegate": {"name": "e"}}, ` + matching("") + `]}`},
				{"VirtualService", "default", "e", `{"http": [` + matching(`"name": "m", "uri": {"prefix": "/b"}`) + `]}`},
			},
			[]string{
				"warning unreachable-route VirtualService default/a spec.http[1]", "warning unreachable-route VirtualService default/a spec.http[6]", "warning unreachable-route VirtualService default/a spec.http[7]",
				"warning unreachable-route VirtualService default/b spec.http[1]",
				"warning unreachable-route VirtualService default/c spec.tcp[2]",
			},
		},
		"names in upper case": {
			[]resource{
				{"Gateway", "default", "Public", gateway("HTTP", "reviews.default.svc.cluster.local")},
				{"VirtualService", "default", "Reviews_v1.DEFAULT-GROUP", `{"hosts": ["reviews"], "gateways": ["Public", "default/public"], "http": [{"delegate": {"name": "Routes"}}]}`},
				{"VirtualService", "default", "Routes", `{"hosts": [], "http": [{"route": [{"destination": {"host": "reviews"}}]}]}`},
			},
			[]string{"error unknown-gateway VirtualService default/Reviews_v1.DEFAULT-GROUP spec.gateways[1]", "info selects-nothing Gateway default/Public spec.selector"},
		},
		"gateways by every name": {
			[]resource{
				{"Gateway", "ingress", "edge", gateway("HTTP", "*")},
				{"Gateway", "default", "edge", gateway("HTTP", "a.example.com")},
				{"WorkloadEntry", "default", "w", `{"address": "10.0.0.2", "labels": {"app": "gw"}}`},
				{"VirtualService", "default", "a", `{"hosts": ["a.example.com"], "gateways": ["edge.ingress.svc.cluster.local", "edge.ingress", "ingress/edge", "edge", "mesh"],
					"http": [{"route": [{"destination": {"host": "reviews"}}]}]}`},
				{"VirtualService", "default", "b", `{"hosts": ["b.example.com"], "gateways": ["edge.gone.svc.cluster.local", "default/gone"],
					"http": [{"match": [{"gateways": ["mesh", "gone"]}], "route": [{"destination": {"host": "reviews"}}]}]}`},
			},
			[]string{
				"error unknown-gateway VirtualService default/b spec.gateways[0]", "error unknown-gateway VirtualService default/b spec.gateways[1]",
				"error unknown-gateway VirtualService default/b spec.http[0].match[0].gateways[1]",
			},
		},
		"a gateway of the Gateway API is none of a VirtualService, nor the other way about": {
			[]resource{
				{"Gateway", "default", "istio", gateway("HTTP", "*")},
				{"WorkloadEntry", "default", "w", `{"address": "10.0.0.2", "labels": {"app": "gw"}}`},
				{"Gateway.gateway.networking.k8s.io", "default", "api", `{"gatewayClassName": "c", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}`},
				{"VirtualService", "default", "a", `{"hosts": ["a.example.com"], "gateways": ["istio", "api"], "http": [{"route": [{"destination": {"host": "reviews"}}]}]}`},
				{"EnvoyFilter", "default", "a", `{"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "api"}, {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "istio"}]}`},
			},
			[]string{"error unknown-gateway VirtualService default/a spec.gateways[1]", "warning unknown-target EnvoyFilter default/a spec.targetRefs[1].name"},
		},
		"a delegate that is not exported": {
			[]resource{
				{"VirtualService", "other", "d", `{"exportTo": ["third"], "http": [{"route": [{"destination": {"host": "reviews.default.svc.cluster.local"}}]}]}`},
				{"VirtualService", "default", "a", `{"hosts": ["a.example.com"], "http": [{"delegate": {"name": "d", "namespace": "other"}}]}`},
				{"VirtualService", "third", "a", `{"hosts": ["b.example.com"], "http": [{"delegate": {"name": "d", "namespace": "other"}}]}`},
			},
			[]string{"error unknown-delegate VirtualService default/a spec.http[0].delegate"},
		},
		"the proxy that a Sidecar sends the unknown to": {
			[]resource{
				{"Sidecar", "default", "a", `{"outboundTrafficPolicy": {"mode": "ALLOW_ANY", "egressProxy": {"host": "gone.default.svc.cluster.local", "port": {"number": 80}}}}`},
				{"Sidecar", "other", "a", `{"outboundTrafficPolicy": {"mode": "ALLOW_ANY", "egressProxy": {"host": "reviews.default.svc.cluster.local", "subset": "v9", "port": {"number": 80}}}}`},
			},
			[]string{
				"error unknown-host Sidecar default/a spec.outboundTrafficPolicy.egressProxy.host",
				"error unknown-port Sidecar other/a spec.outboundTrafficPolicy.egressProxy.port.number", "error unknown-subset Sidecar other/a spec.outboundTrafficPolicy.egressProxy.subset",
			},
		},
		"secrets of subsets' ports": {
			[]resource{{"DestinationRule", "default", "b", `{"host": "*.default.svc.cluster.local", "subsets": [{"name": "v1", "trafficPolicy":
				{"portLevelSettings": [{"port": {"number": 80}, "tls": {"mode": "MUTUAL", "credentialName": "gone"}}]}}]}`}},
			[]string{"error unknown-credential DestinationRule default/b spec.subsets[0].trafficPolicy.portLevelSettings[0].tls.credentialName"},
		},
		"a selector": {
			[]resource{
				{"WorkloadEntry", "default", "w", `{"address": "10.0.0.2", "labels": {"app": "w"}}`},
				{"AuthorizationPolicy", "default", "a", `{"selector": {"matchLabels": {"app": "w"}}}`},
				{"AuthorizationPolicy", "other", "b", `{"selector": {"matchLabels": {"app": "w"}}}`},
				{"AuthorizationPolicy", "istio-system", "c", `{"selector": {"matchLabels": {"app": "w"}}}`},
			},
			[]string{"info selects-nothing AuthorizationPolicy other/b spec.selector.matchLabels"},
		},
		"routes of the Gateway API": {
			[]resource{
				{"HTTPRoute", "default", "a", `{"parentRefs": [{"name": "gone"}, {"group": "", "kind": "Service", "name": "reviews"}],
					"rules": [{"backendRefs": [{"name": "reviews", "port": 9080}, {"name": "reviews", "port": 81}, {"name": "nobody", "port": 80}]}]}`},
				{"HTTPRoute", "other", "b", `{"rules": [{"backendRefs": [{"name": "reviews", "namespace": "default", "port": 9080}]}]}`},
				{"HTTPRoute", "third", "c", `{"rules": [{"backendRefs": [{"name": "reviews", "namespace": "default", "port": 9080}]}]}`},
				{"ReferenceGrant", "default", "g", `{"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "third"}], "to": [{"group": "", "kind": "Service"}]}`},
				{"Gateway.gateway.networking.k8s.io", "default", "gate", `{"gatewayClassName": "pgmesh", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}`},
				{"HTTPRoute", "default", "d", `{"parentRefs": [{"name": "gate", "sectionName": "other"}], "rules": [{"backendRefs": [{"name": "reviews", "port": 9080}]}]}`},
				{"HTTPRoute", "default", "e", `{"parentRefs": [{"group": "", "kind": "Service", "name": "gone"}], "rules": [{"backendRefs": [{"name": "reviews", "port": 9080}]}]}`},
				{"HTTPRoute", "default", "f", `{"parentRefs": [{"name": "gate"}], "rules": [{"backendRefs": [{"group": "networking.istio.io", "kind": "ServiceEntry", "name": "gone"}]}]}`},
				{"HTTPRoute", "other", "g", `{"parentRefs": [{"name": "gate", "namespace": "default"}], "rules": [{}]}`},
			},
			[]string{
				"error unknown-listener HTTPRoute default/d spec.parentRefs[0]", "error unknown-parent HTTPRoute default/e spec.parentRefs[0].name",
				"error unknown-backend HTTPRoute default/f spec.rules[0].backendRefs[0].name", "error not-allowed HTTPRoute other/g spec.parentRefs[0]",
				"error not-permitted HTTPRoute other/b spec.rules[0].backendRefs[0]", "error unknown-host HTTPRoute default/a spec.rules[0].backendRefs[2].name",
				"error unknown-parent HTTPRoute default/a spec.parentRefs[0].name", "error unknown-port HTTPRoute default/a spec.rules[0].backendRefs[1].port",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := connect(t, pgtest.New(t))
			all := slices.Concat(base, test.resources)
			for _, r := range all {
				db.create(r.kind, r.namespace, r.name, r.spec)
			}
			require.Equal(t, slices.Sorted(slices.Values(test.want)), slices.Sorted(slices.Values(db.found("WHERE code <> 'unsupported'"))))
			require.Zero(t, value[int](db, "SELECT count(*) FROM mesh.problems WHERE hint IS NULL OR message IS NULL OR api_group IS NULL"))

			// Who asks about one resource finds what is found of it among all.
			db.Exec(`CREATE TABLE singly AS SELECT p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message
				FROM mesh.resources r, mesh_internal.link_problems_of(r.kind, r.namespace, r.name) p WHERE p.api_group = r.api_group;
				CREATE TABLE together AS SELECT code, kind, api_group, namespace, name, path, message FROM mesh_internal.link_problems WHERE severity <> 'info'`)
			require.Zero(t, value[int](db, "SELECT count(*) FROM ((TABLE singly EXCEPT ALL TABLE together) UNION ALL (TABLE together EXCEPT ALL TABLE singly)) d"))

			// What the changes have left is what a reading of everything finds.
			db.Exec("CREATE TABLE kept AS SELECT * FROM mesh_internal.links; DELETE FROM mesh_internal.links; SELECT mesh_internal.rebuild_links()")
			require.Zero(t, value[int](db, "SELECT count(*) FROM ((TABLE kept EXCEPT ALL TABLE mesh_internal.links) UNION ALL (TABLE mesh_internal.links EXCEPT ALL TABLE kept)) d"))

			db.Exec("DELETE FROM mesh.resources")
			require.Zero(t, value[int](db, "SELECT count(*) FROM mesh_internal.links"))
		})
	}
}

func TestProblemsOfTheStore(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	applied, err := resources.New(s).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{{Key: vs(t, "a"), Spec: []byte(route("a.example.com", `{"host": "rewiews"}`))}}})
	require.NoError(t, err)
	want := []problems.Problem{{
		Severity: "error", Code: "unknown-host", Group: "networking.istio.io", Kind: "VirtualService", Namespace: "default", Name: "a",
		Path: "spec.http[0].route[0].destination.host", Message: `no ServiceEntry that namespace "default" can see has the host "rewiews.default.svc.cluster.local"`,
		Hint: "create a ServiceEntry with this host",
	}}
	require.Equal(t, want, applied.Warnings)
	xBackend, ok := kinds.Lookup("gateway.networking.x-k8s.io", "XBackend")
	require.True(t, ok)
	whole, err := resources.New(s).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{{Key: kinds.Key{Kind: xBackend, Namespace: "other", Name: "t"}, Spec: []byte(`{"type": "ExternalHostname", "externalHostname": {"hostname": "a.example.com"}, "port": {"port": 80}}`)}}})
	require.NoError(t, err)
	require.Equal(t, []string{"", "pgmesh's discovery does not act on it: this kind is not read yet"}, []string{whole.Warnings[0].Path, whole.Warnings[0].Message})
	db.Exec("DELETE FROM mesh.resources WHERE kind = 'XBackend'")

	db.create("ServiceEntry", "default", "reviews", reviews)
	want[0].Hint = `did you mean "reviews.default.svc.cluster.local"?`
	found, err := problems.New(s).List(t.Context(), nil, "default")
	require.NoError(t, err)
	require.Equal(t, want, found)
	all, err := problems.New(s).List(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, want, all)
	none, err := problems.New(s).List(t.Context(), nil, "other")
	require.NoError(t, err)
	require.Empty(t, none)
}
