package envoyfilter

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Extensions are the configurations that filters refer to by name. Of two with the same name the
// first counts.
func (p *Patcher) Extensions() (out []*corev3.TypedExtensionConfig) {
	first := map[string]mesh.Patch{}
	for _, patch := range p.patches[networking.EnvoyFilter_EXTENSION_CONFIG] {
		value, _ := patch.Value.(*corev3.TypedExtensionConfig)
		if other, taken := first[value.GetName()]; taken {
			p.fail(patch, value.GetName(), "the EnvoyFilter "+other.From.Namespace+"/"+other.From.Name+" has one of this name")
			continue
		}
		first[value.GetName()] = patch
		out = append(out, value)
	}
	return out
}
