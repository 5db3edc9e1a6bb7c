package mesh

import meshconfig "istio.io/api/mesh/v1alpha1"

// Surroundings are what translation reads of a mesh beside what a proxy sees and serves (its Scope and its Targets), what it exposes (its
// Frontend), its secrets and its patches. They are equal in two meshes exactly when nothing of it changed between the two.
type Surroundings struct {
	// config is what the mesh says of all: defaults of policies, trust domain, logs, traces, ports.
	config *meshconfig.MeshConfig
	// networks are where endpoints are, and the gateways that stand for those elsewhere.
	networks *networkIndex
	// peers tell which workloads take mutual TLS, also those of services that are sent to.
	peers *peerAuthenticationIndex
	// secrets is where gateways fetch credentials from that are not the mesh's.
	secrets SecretServer
}

// Surroundings of this mesh, to compare with those of another.
func (m *Mesh) Surroundings() Surroundings {
	return Surroundings{config: m.Config, networks: m.networks, peers: m.peers, secrets: m.secretServer}
}
