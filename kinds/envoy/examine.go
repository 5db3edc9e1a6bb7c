package envoy

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Examine is for kinds.Parser: it returns the problems for which a new EnvoyFilter is refused.
// These are what Envoy would refuse or does not have.
func Examine(r *kinds.Resource) (wrong []schema.Problem) {
	spec, isFilter := r.Spec.Message().(*networking.EnvoyFilter)
	if !isFilter {
		return nil
	}
	_, problems := Read(spec)
	for _, p := range problems {
		if p.Level != Idle {
			wrong = append(wrong, p.Problem)
		}
	}
	return wrong
}
