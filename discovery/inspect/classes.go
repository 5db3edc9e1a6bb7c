package inspect

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// shownClasses are the classes of proxies.
type shownClasses struct {
	Total   shownTotal   `json:"total"`
	Classes []shownClass `json:"classes"`
}

// shownTotal adds up what classes have, once for each class and once in all.
type shownTotal struct {
	Classes   int `json:"classes"`
	Proxies   int `json:"proxies"`
	Resources int `json:"resources"`
	Bytes     int `json:"bytes"`
	// Distinct is what is in memory: what classes share is there once.
	DistinctResources int `json:"distinct_resources"`
	DistinctBytes     int `json:"distinct_bytes"`
}

type shownClass struct {
	Class     string   `json:"class"`
	Role      string   `json:"role"`
	Namespace string   `json:"namespace"`
	Revision  string   `json:"revision"` // the last that changed something in it
	Proxies   []string `json:"proxies"`

	Types     []shownAmount `json:"types"`
	Resources int           `json:"resources"`
	Bytes     int           `json:"bytes"`
	// Own is what no other class has.
	OwnResources int `json:"own_resources"`
	OwnBytes     int `json:"own_bytes"`

	has map[*served.Set]string // the type of each set that its proxies have; proxies on demand have smaller ones
}

// shownAmount is an amount of resources of one type.
type shownAmount struct {
	Type      string `json:"type"`
	Resources int    `json:"resources"`
	Bytes     int    `json:"bytes"`
}

func (i *Inspector) classesPage(r *http.Request) (any, error) {
	all := classes(i.clients())
	wanted := r.URL.Query().Get("class")
	if wanted == "" {
		return all, nil
	}
	var names []string
	for _, c := range all.Classes {
		if names = append(names, c.Class); c.Class == wanted {
			all.Classes = []shownClass{c}
			return all, nil
		}
	}
	return nil, &failure{http.StatusNotFound, "there is no class " + wanted + ": " + nearest.Hint(wanted, names, "there are ")}
}

// classes groups clients by class, the class with the most proxies first.
func classes(all []client) *shownClasses {
	of := map[string]*shownClass{}
	for _, c := range all {
		if c.snapshot == nil {
			continue
		}
		one := of[c.Class]
		if one == nil {
			one = &shownClass{Class: c.Class, Role: string(c.Proxy.Type), Namespace: c.Proxy.Namespace, has: map[*served.Set]string{}}
			of[c.Class] = one
		}
		one.add(c)
	}
	shown := &shownClasses{Classes: []shownClass{}}
	owners := map[*served.Resource]int{}
	for _, one := range of {
		one.count(owners)
	}
	for _, one := range of {
		one.countOwn(owners)
		shown.Classes = append(shown.Classes, *one)
	}
	shown.sum(owners)
	slices.SortFunc(shown.Classes, func(a, b shownClass) int {
		return cmp.Or(cmp.Compare(len(b.Proxies), len(a.Proxies)), cmp.Compare(a.Class, b.Class))
	})
	return shown
}

func (c *shownClass) add(one client) {
	c.Proxies, c.Revision = append(c.Proxies, one.id()), one.snapshot.Revision
	for _, s := range sections {
		if set := one.snapshot.Sets[s.typeURL]; set != nil {
			c.has[set] = s.name
		}
	}
}

// resources are those that proxies of the class have, each once.
func (c *shownClass) resources(typ string) map[*served.Resource]bool {
	all := map[*served.Resource]bool{}
	for set, of := range c.has {
		if of == typ {
			for r := range set.All() {
				all[r] = true
			}
		}
	}
	return all
}

// count counts what a class has, and records that the class is one of its owners.
func (c *shownClass) count(owners map[*served.Resource]int) {
	for _, s := range sections {
		amount := shownAmount{Type: s.name}
		for r := range c.resources(s.name) {
			owners[r]++
			amount.Resources++
			amount.Bytes += len(r.Body.GetValue())
		}
		c.Types = append(c.Types, amount)
		c.Resources, c.Bytes = c.Resources+amount.Resources, c.Bytes+amount.Bytes
	}
}

func (c *shownClass) countOwn(owners map[*served.Resource]int) {
	for _, s := range sections {
		for r := range c.resources(s.name) {
			if owners[r] == 1 {
				c.OwnResources++
				c.OwnBytes += len(r.Body.GetValue())
			}
		}
	}
}

func (s *shownClasses) sum(owners map[*served.Resource]int) {
	for _, c := range s.Classes {
		s.Total.Classes++
		s.Total.Proxies += len(c.Proxies)
		s.Total.Resources += c.Resources
		s.Total.Bytes += c.Bytes
	}
	for r := range owners {
		s.Total.DistinctResources++
		s.Total.DistinctBytes += len(r.Body.GetValue())
	}
}
