package mesh

import (
	"fmt"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// SecretServer is a service from which gateways fetch credentials whose names begin with sds://. It
// is the first extension provider of the MeshConfig that is an sds.
type SecretServer struct {
	// Host and Port are those of the service; "" if there is none.
	Host string
	Port uint32

	wrong string // why it cannot be asked, and what to do
	at    int    // in the MeshConfig
}

func buildSecretServer(config *meshconfig.MeshConfig, services *serviceIndex) SecretServer {
	for i, p := range config.GetExtensionProviders() {
		if sds := p.GetSds(); sds != nil {
			host, wrong := services.behind(sds.GetService(), sds.GetPort())
			if wrong != "" {
				return SecretServer{wrong: wrong, at: i}
			}
			return SecretServer{Host: host, Port: sds.GetPort()}
		}
	}
	return SecretServer{}
}

// SecretServer returns that of the mesh.
func (m *Mesh) SecretServer() SecretServer { return m.secretServer }

// secretServerProblems are those of the MeshConfig.
func (m *Mesh) secretServerProblems() []Problem {
	if m.secretServer.wrong == "" {
		return nil
	}
	for r := range m.from.Of(kindMeshConfig) {
		return []Problem{{Of: r.Key(), Path: fmt.Sprintf("spec.extensionProviders[%d]", m.secretServer.at), Reason: "the provider cannot be asked for secrets: " + m.secretServer.wrong}}
	}
	return nil
}
