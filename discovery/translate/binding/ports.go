package binding

import (
	"iter"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Port is a service that is listened for on a port.
type Port struct {
	Binding

	Egress  *mesh.Egress
	Service *mesh.Service
	Port    *mesh.Port
}

// Ports lists what an egress listener listens for: its services, on its port or else on all of
// theirs.
func Ports(v view.View, egress *mesh.Egress) iter.Seq[Port] {
	b := OfEgress(v, egress)
	return func(yield func(Port) bool) {
		for _, s := range egress.Services {
			ports := s.Ports
			if egress.Port != nil {
				ports = []*mesh.Port{egress.Port}
			}
			for _, port := range ports {
				if CanBind(v, b, port) && !yield(Port{Binding: b, Egress: egress, Service: s, Port: port}) {
					return
				}
			}
		}
	}
}
