package mesh

import (
	"maps"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1beta1"
)

// StartedWith is the configuration that the proxy of a machine starts with: the MeshConfig's
// defaultConfig, then, over it, the ProxyConfigs of the root namespace, of the machine's namespace,
// and one that selects the machine. It is nil if none of them says anything.
func (m *Mesh) StartedWith(namespace string, labels map[string]string) *meshconfig.ProxyConfig {
	out := proto.CloneOf(m.Config.GetDefaultConfig())
	if root := m.Config.GetRootNamespace(); root != namespace {
		startedWith(out, m.defaults.forAll(root).ProxyConfig)
	}
	startedWith(out, m.defaults.forAll(namespace).ProxyConfig)
	startedWith(out, m.defaults.forWorkload(namespace, labels).ProxyConfig)
	if proto.Size(out) == 0 {
		return nil
	}
	return out
}

// startedWith sets what a ProxyConfig says in a configuration.
func startedWith(out *meshconfig.ProxyConfig, says *networking.ProxyConfig) {
	if c := says.GetConcurrency(); c != nil {
		out.Concurrency = c
	}
	if says.GetImage() != nil {
		out.Image = says.GetImage()
	}
	if variables := says.GetEnvironmentVariables(); len(variables) > 0 {
		if out.GetProxyMetadata() == nil {
			out.ProxyMetadata = map[string]string{}
		}
		maps.Copy(out.ProxyMetadata, variables)
	}
}
