package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Istiod prepares an istiod that reads its configuration from the stack's mcp-server, and returns
// its address for proxies and readers.
func (s *Stack) Istiod(binary string) (p *Program, address string, err error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, "", err
	}
	meshConfig := filepath.Join(s.dir, "istiod-mesh.yaml")
	if err := os.WriteFile(meshConfig, fmt.Appendf(nil, "configSources: [{address: 'xds://%s'}]\n", s.MCP), 0o644); err != nil {
		return nil, "", err
	}
	p = s.program("istiod", ports[1], "--mesh-config", meshConfig, "--grpc", ports[0], "--http", ports[1])
	p.path, p.readyPath = binary, "/ready"
	p.Via("env", "ENABLE_XDS_API_GENERATOR_AUTH=false") // istiod authenticates callers by certificate, and this connection is plaintext
	return p, ports[0], nil
}

// ClusterIstiod is an istiod that reads a Kubernetes cluster.
type ClusterIstiod struct {
	*Program

	// Plain and Secure are its addresses for proxies: in plaintext, and over TLS with its authority.
	Plain, Secure string
}

// forStockEnvoys are settings without which istiod sends filters that only Istio's own build of Envoy
// has. They tell names of workloads for telemetry, and clients' protocol by ALPN.
var forStockEnvoys = []string{"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false"}

// IstiodOf prepares an istiod that reads a cluster, with its MeshConfig, and is the authority of the
// cluster's proxies.
func (s *Stack) IstiodOf(binary, kubeconfig string) (*ClusterIstiod, error) {
	ports, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	p := s.program("istiod", ports[1], "--kubeconfig", kubeconfig, "--grpc", ports[0], "--http", ports[1], "--secure-grpc", ports[2])
	p.path, p.readyPath = binary, "/ready"
	p.Via(slices.Concat([]string{"env", "-C", s.dir, "PILOT_MAX_REQUESTS_PER_SECOND=10000"}, forStockEnvoys)...) // a test asks until it is answered
	return &ClusterIstiod{Program: p, Plain: ports[0], Secure: ports[2]}, nil
}

// DiscoveryOf prepares a discovery that reads from another server than the stack's, and returns its
// xDS address.
func (s *Stack) DiscoveryOf(server string) (p *Program, xds string, err error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, "", err
	}
	return s.program("discovery", ports[1], "run", "--insecure", "--mcp", server, "--listen", ports[0], "--http", ports[1]), ports[0], nil
}
