package translate

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

	allowAny = "allow_any"
	blockAll = "block_all"
)

// ClusterName is outbound|9080|v1|reviews.default.svc.cluster.local; the subset may be empty.
func ClusterName(port uint32, subset, host string) string {
	return "outbound|" + number(port) + "|" + subset + "|" + host
}

// ServerName is outbound_.9080_.v1_.reviews.default.svc.cluster.local: a cluster's name as clients of the mesh ask for it in TLS.
func ServerName(port uint32, subset, host string) string {
	return "outbound_." + number(port) + "_." + subset + "_." + host
}

// InboundClusterName is inbound|8080||, by the port that the workload listens on.
func InboundClusterName(port uint32) string { return "inbound|" + number(port) + "||" }

// listenerName is 0.0.0.0_9080. In stats and logs IPv6 addresses appear with their colons.
func listenerName(bind string, port uint32) string { return bind + "_" + number(port) }

// hostPort is reviews.default.svc.cluster.local:9080, with brackets around IPv6 addresses.
func hostPort(host string, port uint32) string { return net.JoinHostPort(host, number(port)) }

// asHost writes an address as it stands in a Host header.
func asHost(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// statName ends a name where Istio's stats patterns expect the end.
func statName(name string) string { return name + ";" }

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
