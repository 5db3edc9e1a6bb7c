package gatewayapi

import (
	"maps"
	"reflect"

	networking "istio.io/api/networking/v1alpha3"
)

// Extras are what a rule says of requests and no VirtualService can. They stand beside the route that
// the rule becomes.
type Extras struct {
	// Session has requests of one session go to one endpoint; nil if nothing does.
	Session *Session
	// Authorization has a service decide about requests; nil if none does.
	Authorization *Authorization
}

// extras are those of some routes. Most routes have none.
type extras map[*networking.HTTPRoute]*Extras

// with has those of one more route, which may have none.
func (x extras) with(of *networking.HTTPRoute, e *Extras) extras {
	if e == nil || *e == (Extras{}) {
		return x
	}
	if x == nil {
		x = extras{}
	}
	x[of] = e
	return x
}

// add takes those of a piece.
func (r *Rules) add(of extras) {
	switch {
	case len(of) == 0:
	case r.extras == nil:
		r.extras = maps.Clone(of)
	default:
		maps.Copy(r.extras, of)
	}
}

// Extras are those of one of the routes; nil for none.
func (r *Rules) Extras(of *networking.HTTPRoute) *Extras { return r.extras[of] }

// HasSessions reports whether one of the routes has sessions.
func (r *Rules) HasSessions() bool {
	for _, e := range r.extras {
		if e.Session != nil {
			return true
		}
	}
	return false
}

// HasAuthorizations reports whether services decide about the requests of one of the routes.
func (r *Rules) HasAuthorizations() bool {
	for _, e := range r.extras {
		if e.Authorization != nil {
			return true
		}
	}
	return false
}

// sameExtras reports whether two pieces with the same routes have the same beside them.
func (p *Piece) sameExtras(other *Piece) bool {
	if len(p.Extras) != len(other.Extras) {
		return false
	}
	for i, route := range p.HTTP {
		if len(p.Extras) > 0 && !reflect.DeepEqual(p.Extras[route], other.Extras[other.HTTP[i]]) {
			return false
		}
	}
	return true
}
