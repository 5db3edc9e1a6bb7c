package mesh

import meshconfig "istio.io/api/mesh/v1alpha1"

// Surroundings are what translation reads of a mesh that is the same for every proxy: all but
// Scope, Targets, Frontend, secrets and patches. Those of two meshes are equal exactly if nothing
// in them changed in between.
type Surroundings struct {
	// config has the settings for all: policy defaults, trust domain, logs, traces, ports.
	config *meshconfig.MeshConfig
	// networks say where endpoints are, and which gateways stand for endpoints elsewhere.
	networks *networkIndex
	// peers tell which workloads accept mutual TLS, those behind services too.
	peers *peerAuthenticationIndex
	// secrets is the server that gateways fetch credentials from which are not the mesh's.
	secrets SecretServer
}

// Surroundings of this mesh, to compare with those of another.
func (m *Mesh) Surroundings() Surroundings {
	return Surroundings{config: m.Config, networks: m.networks, peers: m.peers, secrets: m.secretServer}
}
