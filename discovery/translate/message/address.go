package message

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// SocketAddress is an IP address with a port.
func SocketAddress(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// DatagramAddress is an IP address with a port of UDP.
func DatagramAddress(ip string, port uint32) *corev3.Address {
	out := SocketAddress(ip, port)
	out.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	return out
}

// PipeAddress is a socket with a path.
func PipeAddress(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// BindAddress is an address, or a socket as unix:///path.
func BindAddress(bind string, port uint32) *corev3.Address {
	if mesh.IsSocket(bind) {
		return PipeAddress(strings.TrimPrefix(bind, "unix://"))
	}
	return SocketAddress(bind, port)
}
