package secret

import (
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/identity/agentsecret"
)

// Own asks for the certificate that the workload shows to its clients, and for the roots that it
// checks them by. The agent has both, unless the proxy names files of its machine; those the agent
// reads, or Envoy if there is no agent.
func Own(v view.View) (certificate, roots *tlsv3.SdsSecretConfig) {
	files, from := v.Proxy.Identity.Server, FromAgent
	if !v.Proxy.Identity.FromAgent {
		from = FromDiscovery
	}
	certificate, roots = FromAgent(agentsecret.Certificate), FromAgent(agentsecret.Roots)
	if files.Certificate != "" {
		certificate = from(CertificateName(files.Certificate, files.Key))
	}
	if files.Roots != "" {
		roots = from(RootsName(files.Roots))
	}
	return certificate, roots
}
