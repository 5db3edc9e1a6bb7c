package gatewayapi

import (
	"iter"

	"github.com/pgmesh/pgmesh/kinds"
)

// Classes says of the names of classes whether their Gateways are served here. A class that is not
// in it is not known.
type Classes map[string]bool

// ReadClasses returns the classes that there are: those of GatewayClasses, and those that need
// none.
func ReadClasses(resources iter.Seq[*kinds.Resource]) Classes {
	classes := Classes{Class: true, IstioClass: true}
	for r := range resources {
		if spec, err := specOf[classSpec](r); err == nil {
			classes[r.Name] = spec.ControllerName == Controller || spec.ControllerName == IstioController
		}
	}
	return classes
}
