package push

import (
	networking "istio.io/api/networking/v1alpha3"

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

// scoped tells whether the change is one of such a kind.
func (c *Change) scoped() bool { return isScoped(c.Before) && isScoped(c.After) }

func isScoped(r *kinds.Resource) bool {
	return r == nil || r.Kind.Group == "networking.istio.io" && scopedKinds[r.Kind.Name]
}
