// Package naming has Istio's names for what Envoy is sent. People's EnvoyFilters, dashboards and
// logs know them.
package naming

import (
	"net"
	"strconv"
	"strings"
)

// Names that Envoy resources have whatever the mesh holds.
const (
	PassthroughCluster        = "PassthroughCluster"
	BlackHoleCluster          = "BlackHoleCluster"
	InboundPassthroughCluster = "InboundPassthroughCluster" //nolint:gosec // "Pass" is no password
	VirtualOutbound           = "virtualOutbound"
	VirtualInbound            = "virtualInbound"

	// UnknownService is a cluster that is never there. Routes of the Gateway API go there whose
	// backend they may not have.
	UnknownService = "UnknownService"

	// UnknownHostsCluster is for requests to unknown hosts whose address the proxy finds itself.
	UnknownHostsCluster = "AllowAnyDynamicDNSCluster"
)

// Names of the virtual hosts for requests to unknown hosts.
const (
	AllowAny        = "allow_any"
	AllowAnyDynamic = "allow_any_dynamic_dns"
	BlockAll        = "block_all"
)

// Cluster is outbound|9080|v1|reviews.default.svc.cluster.local. The subset may be empty.
func Cluster(port uint32, subset, host string) string {
	return "outbound|" + Number(port) + "|" + subset + "|" + host
}

// ClusterShowing is outbound|443|~edge~gate|pay.shop.svc.cluster.local: a cluster whose endpoints are
// shown the certificate gate of the namespace edge. No subset has a "~" in its name.
func ClusterShowing(port uint32, subset, certificate, host string) string {
	return Cluster(port, subset+"~"+strings.ReplaceAll(certificate, "/", "~"), host)
}

// DatagramCluster is outbound|53_udp||dns.shop.svc.cluster.local. Istio has none of UDP; the service may
// have a port for connections of the same number.
func DatagramCluster(port uint32, host string) string {
	return "outbound|" + Number(port) + "_udp||" + host
}

// DatagramListener is 0.0.0.0_53_udp.
func DatagramListener(bind string, port uint32) string { return Listener(bind, port) + "_udp" }

// Server is outbound_.9080_.v1_.reviews.default.svc.cluster.local: a cluster's name as clients of
// the mesh ask for it in TLS.
func Server(port uint32, subset, host string) string {
	return "outbound_." + Number(port) + "_." + subset + "_." + host
}

// InboundCluster is inbound|8080||, by the port that the workload listens on.
func InboundCluster(port uint32) string { return "inbound|" + Number(port) + "||" }

// Listener is 0.0.0.0_9080. In stats and logs IPv6 addresses appear with their colons.
func Listener(bind string, port uint32) string { return bind + "_" + Number(port) }

// HostPort is reviews.default.svc.cluster.local:9080, with brackets around IPv6 addresses.
func HostPort(host string, port uint32) string { return net.JoinHostPort(host, Number(port)) }

// AsHost writes an address as it stands in a Host header.
func AsHost(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// Stat ends a name where Istio's stats patterns expect the end.
func Stat(name string) string { return name + ";" }

// Number writes a number.
func Number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// Host is the name by which a virtual host of a route configuration is sent. Envoy takes what comes
// before the last slash for the configuration's name, so there must be none after it.
func Host(configuration, host string) string {
	return configuration + "/" + strings.ReplaceAll(host, "/", "%2F")
}
