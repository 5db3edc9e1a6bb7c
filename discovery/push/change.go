package push

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// Change is one resource before and after a revision; nil where there is none.
type Change struct{ Before, After *kinds.Resource }

// ofRoutes tells whether the change is one of a VirtualService, and so of routes alone.
func (c *Change) ofRoutes() bool { return isRoutes(c.Before) && isRoutes(c.After) }

func isRoutes(r *kinds.Resource) bool {
	return r == nil || virtualService(r) != nil
}

// ofHTTPRoutes tells whether the change is one of routes by HTTP, which listeners ask for by name. Other routes are part of them.
func (c *Change) ofHTTPRoutes() bool {
	return c.ofRoutes() && !inListeners(c.Before) && !inListeners(c.After)
}

func inListeners(r *kinds.Resource) bool {
	vs := virtualService(r)
	return len(vs.GetTcp())+len(vs.GetTls()) > 0
}

// Each part is blind to changes of what it is not made from.
func blindToClusters(c *Change) bool {
	return c.ofRoutes() || c.patchesNone(networking.EnvoyFilter_CLUSTER)
}

func blindToEndpoints(c *Change) bool { return c.ofRoutes() || c.patchesNone() }

func blindToExtensions(c *Change) bool {
	return !c.ofPatches() || c.patchesNone(networking.EnvoyFilter_EXTENSION_CONFIG)
}

func blindToListeners(c *Change) bool {
	return c.ofHTTPRoutes() || c.patchesNone(envoyfilter.InListeners...)
}

func blindToRoutes(c *Change) bool { return c.patchesNone(envoyfilter.InRoutes...) }

func blindToNames(c *Change) bool { return c.ofRoutes() || c.ofPatches() }

// ofPatches tells whether the change is one of an EnvoyFilter.
func (c *Change) ofPatches() bool { return isPatches(c.Before) && isPatches(c.After) }

func isPatches(r *kinds.Resource) bool {
	return r == nil || r.Kind.Group == "networking.istio.io" && r.Kind.Name == "EnvoyFilter"
}

// patchesNone tells whether the change is one of an EnvoyFilter that changes none of these.
func (c *Change) patchesNone(of ...networking.EnvoyFilter_ApplyTo) bool {
	return c.ofPatches() && !patchesOne(c.Before, of) && !patchesOne(c.After, of)
}

func patchesOne(r *kinds.Resource, of []networking.EnvoyFilter_ApplyTo) bool {
	if r == nil {
		return false
	}
	spec, _ := r.Spec.Message().(*networking.EnvoyFilter)
	return slices.ContainsFunc(spec.GetConfigPatches(), func(p *networking.EnvoyFilter_EnvoyConfigObjectPatch) bool {
		return slices.Contains(of, p.GetApplyTo())
	})
}

// isFor tells whether the change can be one for the proxies of a class: that of an EnvoyFilter is for those alone that it selects.
func (c *Change) isFor(class *mesh.Class) bool {
	if !c.ofPatches() {
		return true
	}
	r := c.After
	if r == nil {
		r = c.Before
	}
	return r != nil && class.PatchedBy(r.Namespace, r.Name)
}

// virtualService is the spec of a VirtualService, nil of anything else.
func virtualService(r *kinds.Resource) *networking.VirtualService {
	if r == nil {
		return nil
	}
	vs, _ := r.Spec.Message().(*networking.VirtualService)
	return vs
}

// scopedKinds are those that sidecars see through their scopes, and what their own workload serves, alone.
var scopedKinds = map[string]bool{
	"ServiceEntry": true, "WorkloadEntry": true, "VirtualService": true, "DestinationRule": true, "Sidecar": true,
}

// scoped tells whether the change is one of such a kind, or of a secret.
func (c *Change) scoped() bool { return c.ofSecrets() || isScoped(c.Before) && isScoped(c.After) }

func isScoped(r *kinds.Resource) bool {
	return r == nil || r.Kind.Group == "networking.istio.io" && scopedKinds[r.Kind.Name]
}
