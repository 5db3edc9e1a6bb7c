package stack

import (
	"fmt"
	"os"
	"path/filepath"
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

// DiscoveryOf prepares a discovery that reads from another server than the stack's, and returns its
// xDS address.
func (s *Stack) DiscoveryOf(server string) (p *Program, xds string, err error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, "", err
	}
	return s.program("discovery", ports[1], "run", "--insecure", "--mcp", server, "--listen", ports[0], "--http", ports[1]), ports[0], nil
}
