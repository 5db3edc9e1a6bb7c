package push

import "github.com/pgmesh/pgmesh/discovery/mesh"

// conflicts lists the servers of Gateways, and the routes on them, that routers leave out because
// another resource took their place first.
func conflicts(m *mesh.Mesh, classes map[classKey]*class) (out []Problem) {
	for key, class := range classes {
		if key.Type != mesh.Router {
			continue
		}
		for _, p := range m.Frontend(class.of.configured).Problems {
			out = append(out, Problem{Problem: p, Code: LeftOut})
		}
	}
	return out
}
