package envoyfilter

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Extensions adds to the configurations that filters refer to by name. Those that are there keep
// their names; of two added ones with the same name the first counts.
func (p *Patcher) Extensions(there []*corev3.TypedExtensionConfig) []*corev3.TypedExtensionConfig {
	if !p.Patches(networking.EnvoyFilter_EXTENSION_CONFIG) {
		return there
	}
	taken := map[string]bool{}
	for _, c := range there {
		taken[c.GetName()] = true
	}
	out, first := slices.Clone(there), map[string]mesh.Patch{}
	for _, patch := range p.patches[networking.EnvoyFilter_EXTENSION_CONFIG] {
		value, _ := patch.Value.(*corev3.TypedExtensionConfig)
		if taken[value.GetName()] {
			p.fail(patch, value.GetName(), "a WasmPlugin or TrafficExtension has this name: choose another")
			continue
		}
		if other, given := first[value.GetName()]; given {
			p.fail(patch, value.GetName(), "the EnvoyFilter "+other.From.Namespace+"/"+other.From.Name+" has one of this name")
			continue
		}
		first[value.GetName()] = patch
		out = append(out, value)
	}
	return out
}
