package service

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// mostPorts is how many ports a service may have because its instances listen on different ones.
// Where there are more, a scheduler draws them.
const mostPorts = 4

// protocols are those that registries write, by their words in lower case.
var protocols = map[string]string{
	"http": "HTTP", "http2": "HTTP2", "grpc": "GRPC", "https": "HTTPS", "tls": "TLS", "tcp": "TCP", "mongo": "MONGO", "mysql": "MYSQL", "redis": "REDIS",
}

// Protocol is what a registry's word means for a port, or "" if that is not known.
func Protocol(word string) string { return protocols[strings.ToLower(word)] }

// PortsOf are the ports of a service that its registry knows no port of, but those of its instances:
// each that one of them has, so that clients reach it at any of them. Where there are too many, it is
// the one that is drawn for all. What is 0 is left out.
func PortsOf(protocol string, drawn uint32, instances []uint32) []Port {
	numbers := slices.DeleteFunc(slices.Clone(instances), func(n uint32) bool { return n == 0 })
	slices.Sort(numbers)
	if numbers = slices.Compact(numbers); len(numbers) > mostPorts {
		numbers = []uint32{drawn}
	}
	ports := make([]Port, len(numbers))
	for i, n := range numbers {
		ports[i] = Port{Name: strings.ToLower(cmp.Or(protocol, "TCP")) + "-" + strconv.FormatUint(uint64(n), 10), Number: n, Protocol: protocol}
	}
	return ports
}

// At is where an instance with one port is reached, whichever port of the service a client asks for.
func At(ports []Port, port uint32) map[string]uint32 {
	out := make(map[string]uint32, len(ports))
	for _, p := range ports {
		out[p.Name] = port
	}
	return out
}
