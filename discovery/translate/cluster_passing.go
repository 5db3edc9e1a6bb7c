package translate

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// passingUpstreams are for a gateway between networks, which passes mutual TLS on by the server name that clients ask for: each
// service of the mesh, and each subset, under that name.
func (v view) passingUpstreams(b Backend) []upstream {
	if b.Service.External {
		return nil
	}
	out := v.upstreams(b)
	for i := range out {
		out[i].passesTLS = true
	}
	return out
}

// passesTLS reports whether the proxy is such a gateway.
func (v view) passesTLS() bool {
	return v.proxy.Type == mesh.Router && v.mesh.Frontend(v.proxy).AutoPassthrough()
}
