package push

import (
	"slices"
	"weak"

	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// hosts caches the virtual hosts made under the same conditions, by name, for as long as a shared
// view has them. A host that a hundred shared views see alike is made once.
type hosts struct {
	made  map[string][]weak.Pointer[madePart[virtualhost.Host]]
	sweep int // how many names there may be before unused ones are dropped
}

// mostAlike bounds how many virtual hosts of one name are kept and compared. They differ in who
// sees them.
const mostAlike = 16

// make translates a virtual host, or returns one that was made from the same.
func (h *hosts) make(e *Engine, of virtualhost.Host) *madePart[virtualhost.Host] {
	alike := h.made[of.Name()]
	for _, p := range alike {
		if known := p.Value(); known != nil && known.of.Same(of) {
			return known
		}
	}
	now := &madePart[virtualhost.Host]{of, encodeHosts(e, of.Make())}
	h.forget()
	alike = slices.DeleteFunc(alike, isGone)
	if len(alike) == mostAlike {
		alike = alike[1:]
	}
	h.made[of.Name()] = append(alike, weak.Make(now))
	return now
}

func isGone(p weak.Pointer[madePart[virtualhost.Host]]) bool { return p.Value() == nil }

// forget drops the hosts that no shared view has any more, once there are twice as many names as
// after the last time.
func (h *hosts) forget() {
	if h.made == nil {
		h.made = map[string][]weak.Pointer[madePart[virtualhost.Host]]{}
	}
	if len(h.made) < max(h.sweep, leastSwept) {
		return
	}
	for name, alike := range h.made {
		if alike = slices.DeleteFunc(alike, isGone); len(alike) == 0 {
			delete(h.made, name)
		} else {
			h.made[name] = alike
		}
	}
	h.sweep = 2 * len(h.made)
}
