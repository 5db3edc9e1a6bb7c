package push

import (
	"time"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// piece is what one backend comes to: its clusters, and their endpoints. Whoever sees the backend in the same conditions shares it.
type piece struct{ clusters, endpoints made }

// conditions are what pieces are made from beside their backends.
type conditions struct {
	traits       mesh.Traits
	surroundings mesh.Surroundings
	passesTLS    bool
}

// shelf has the pieces that were made in the same conditions, the lists of routes, and the virtual hosts.
type shelf struct {
	pieces map[translate.Backend]*piece
	routes *translate.RouteLists
	hosts  hosts
	sweep  int
}

// pieces are all that were made, and that somebody may still have.
type pieces struct{ in map[conditions]*shelf }

func (p *pieces) shelf(c conditions) *shelf {
	s := p.in[c]
	if s == nil {
		s = &shelf{pieces: map[translate.Backend]*piece{}, routes: translate.NewRouteLists()}
		p.in[c] = s
	}
	return s
}

// forget drops the pieces that none of the sights has. It looks at them only when there are twice as many as after the last time.
func (p *pieces) forget(sights map[sightKey]*sight) {
	used := map[*shelf][]*sight{}
	for _, x := range sights {
		used[x.shelf] = append(used[x.shelf], x)
	}
	for c, s := range p.in {
		if used[s] == nil {
			delete(p.in, c)
		} else if len(s.pieces) >= max(s.sweep, leastSwept) {
			s.forget(used[s])
		}
	}
}

func (s *shelf) forget(used []*sight) {
	live := make(map[translate.Backend]*piece, len(s.pieces))
	for _, x := range used {
		for i, b := range x.backends {
			live[b] = x.pieces[i]
		}
	}
	s.pieces, s.sweep = live, 2*len(live)
}

// make translates a backend, unless that has been done.
func (e *Engine) make(s *shelf, sight translate.Sight, b translate.Backend) *piece {
	if p := s.pieces[b]; p != nil {
		return p
	}
	p, begun := &piece{}, time.Now()
	p.clusters = encodeClusters(&e.once, sight.Clusters(b))
	e.translated(ClusterType, begun, p.clusters)
	begun = time.Now()
	p.endpoints = encodeEndpoints(&e.once, sight.Endpoints(b))
	e.translated(EndpointType, begun, p.endpoints)
	s.pieces[b] = p
	return p
}

// exchanged brings a set to what the pieces are now, by what went and what came.
func exchanged(set *ads.Set, went, came []*piece, of func(*piece) *made) *ads.Set {
	if len(went)+len(came) == 0 && set != nil {
		return set
	}
	var upserts []*ads.Resource
	keep := map[string]bool{}
	for _, p := range came {
		upserts = append(upserts, of(p).resources...)
		for name := range of(p).names() {
			keep[name] = true
		}
	}
	var gone []string
	for _, p := range went {
		for name := range of(p).names() {
			if !keep[name] {
				gone = append(gone, name)
			}
		}
	}
	return set.With(upserts, gone)
}

// difference is what only one of two lists has. What both begin and end with is passed over quickly.
func difference(before, now []*piece) (went, came []*piece) {
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	return without(before, now), without(now, before)
}

func without(list, other []*piece) (out []*piece) {
	there := make(map[*piece]bool, len(other))
	for _, p := range other {
		there[p] = true
	}
	for _, p := range list {
		if !there[p] {
			out = append(out, p)
		}
	}
	return out
}
