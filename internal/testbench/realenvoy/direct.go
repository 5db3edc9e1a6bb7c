package realenvoy

import (
	"net"
	"strconv"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

// Sidecar is an Envoy as an agent would run it beside an application.
func Sidecar() bootstrap.Options {
	return bootstrap.Options{
		Role: bootstrap.Sidecar, XDS: bootstrap.Delta, IP: "127.0.0.1", ID: "bench.bench", Namespace: "bench",
		Domain: "bench.svc.cluster.local", Interception: bootstrap.None, Admin: "127.0.0.1:0",
	}
}

// Bootstrap is that of an Envoy without an agent, to measure discovery alone.
func Bootstrap(o bootstrap.Options, discovery string) (*bootstrapv3.Bootstrap, error) {
	o.Socket = "/nowhere"
	b, err := bootstrap.New(o)
	if err != nil {
		return nil, err
	}
	return b, direct(b, discovery)
}

// direct points an Envoy directly to a discovery.
func direct(b *bootstrapv3.Bootstrap, discovery string) error {
	host, port, err := net.SplitHostPort(discovery)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	endpoint := b.GetStaticResources().GetClusters()[0].GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint()
	endpoint.Address = &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(number)},
	}}}
	return nil
}
