package mesh

import (
	"fmt"
	"net/netip"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
)

// entryProblems lists ServiceEntries that proxies leave a part out of, the oldest first.
func (m *Mesh) entryProblems() (out []Problem) {
	var faulty []*kinds.Resource
	for r := range m.services.faulty.each() {
		faulty = append(faulty, r)
	}
	slices.SortFunc(faulty, kinds.CompareAge)
	for _, r := range faulty {
		out = append(out, m.services.faulty.get(r)...)
	}
	return out
}

// samePorts reports whether sidecars listen on the same ports for redirected connections.
func samePorts(a, b *meshconfig.MeshConfig) bool {
	return a.GetProxyListenPort() == b.GetProxyListenPort() && a.GetProxyInboundListenPort() == b.GetProxyInboundListenPort()
}

// problems says what proxies leave out of an entry.
func (e entry) problems(config *meshconfig.MeshConfig) (out []Problem) {
	if len(e.services) == 0 || e.services[0].Pool != nil {
		return nil // what is wrong with a pool is told with its status
	}
	first := e.services[0] // the others differ only in their hosts
	out = first.crossingProblems()
	for i, port := range first.spec().GetPorts() {
		if isProxys(port.GetNumber(), config) && ParseProtocol(port.GetProtocol()) != ProtocolUDP && first.everywhere() {
			out = append(out, Problem{Of: first.Entry.Key(), Path: fmt.Sprintf("spec.ports[%d].number", i), Reason: fmt.Sprintf(
				"sidecars themselves listen on port %d of every address, for what is redirected to them: they have no listener for this one. "+
					"Take another port, or give the service an address of its own in spec.addresses", port.GetNumber())})
		}
	}
	return out
}

// isProxys reports whether sidecars themselves listen on the port.
func isProxys(port uint32, config *meshconfig.MeshConfig) bool {
	return port == uint32(config.GetProxyListenPort()) || port == uint32(config.GetProxyInboundListenPort())
}

// everywhere reports whether clients reach the service at any address.
func (s *Service) everywhere() bool {
	return slices.ContainsFunc(s.Addresses, func(a string) bool {
		address, err := netip.ParseAddr(a)
		return err == nil && address.Unmap().IsUnspecified()
	})
}
