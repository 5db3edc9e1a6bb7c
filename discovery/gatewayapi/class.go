package gatewayapi

import (
	"iter"

	"github.com/pgmesh/pgmesh/kinds"
)

// Classes are the controllers of classes, by the names of the classes. A class that is not in it is
// not known.
type Classes map[string]string

// ReadClasses returns the classes that there are: those of GatewayClasses, and those that need
// none.
func ReadClasses(resources iter.Seq[*kinds.Resource]) Classes {
	classes := Classes{Class: Controller, IstioClass: Controller}
	for r := range resources {
		if spec, err := specOf[classSpec](r); err == nil {
			classes[r.Name] = spec.ControllerName
		}
	}
	return classes
}

// serve reports whether Gateways of a class are served here.
func (c Classes) serve(class string) bool {
	return c[class] == Controller || c[class] == IstioController
}

// StatusOfClass is the status of a GatewayClass; nil if it is another controller's to say.
func StatusOfClass(r *kinds.Resource) *Status {
	spec, err := specOf[classSpec](r)
	if err != nil || spec.ControllerName != Controller {
		return nil
	}
	s := &Status{Conditions: []Condition{holds(condAccepted), holds("SupportedVersion")}}
	for _, name := range features {
		s.SupportedFeatures = append(s.SupportedFeatures, Feature{name})
	}
	return s
}
