package inbound

import (
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Opening is a port that a listener of its own opens.
type Opening struct {
	binding.Binding

	Port uint32
}

// Openings are the ports that a Sidecar opens by itself.
func Openings(v view.View) (out []Opening) {
	for _, in := range ingressPorts(filter.Context{View: v}, v.Scope.SidecarSpec.GetIngress()) {
		if in.Explicit {
			out = append(out, Opening{in.Binding, in.port})
		}
	}
	return out
}
