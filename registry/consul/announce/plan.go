package announce

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/registry/announce"
	"github.com/pgmesh/pgmesh/registry/service"
)

// mostInstances bounds what is announced. What comes after it is told.
const mostInstances = 100_000

// plan is what the catalog is to have.
type plan struct {
	*settings

	services map[string]*planned // by the names of resources
	wrong    map[string]error
	// rivals are those that are wrong because others have their names: they must not stay as they were.
	rivals map[string]bool
	total  int
}

// planned are the instances of one service.
type planned struct {
	from *service.Service
	name string
	all  map[string]*instance // by their ids
}

// next returns the plan for services. What has not changed is shared with the plan before.
func (p *plan) next(now *announce.Services) *plan {
	out := &plan{settings: p.settings, services: make(map[string]*planned, len(now.All)), wrong: map[string]error{}, rivals: map[string]bool{}}
	claims := map[string]string{}
	for _, resource := range byAge(now.All) {
		s := now.All[resource]
		made, err := p.planned(resource, s)
		if err == nil {
			err = out.add(claims, resource, made)
		}
		if err != nil {
			out.wrong[resource] = err
		}
	}
	return out
}

// byAge are the names of resources, the oldest first: the one that has had a name keeps it.
func byAge(all map[string]*service.Service) []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(all[a].Created.Compare(all[b].Created), cmp.Compare(a, b)) })
	return names
}

func (p *plan) planned(resource string, s *service.Service) (*planned, error) {
	if before := p.services[resource]; before != nil && before.from == s {
		return before, nil
	}
	name, err := p.nameOf(s)
	if err != nil {
		return nil, err
	}
	list, err := p.instances(resource, name, s)
	if err != nil {
		return nil, err
	}
	out := &planned{from: s, name: name, all: make(map[string]*instance, len(list))}
	for _, i := range list {
		out.all[i.ID] = i
	}
	return out, nil
}

var errTooMany = errors.New("more than 100000 instances would be announced, and this service is left out")

// add adds a service, unless an older one has one of its names.
func (p *plan) add(claims map[string]string, resource string, made *planned) error {
	names := map[string]bool{made.name: true}
	for _, i := range made.all {
		names[i.Service] = true
	}
	for name := range names {
		if other, taken := claims[name]; taken {
			p.rivals[resource] = true
			return fmt.Errorf("the older %s is announced as %q already: give another name by the annotation %s", other, name, announce.Annotation)
		}
	}
	if p.total+len(made.all) > mostInstances {
		return errTooMany
	}
	for name := range names {
		claims[name] = resource
	}
	p.services[resource] = made
	p.total += len(made.all)
	return nil
}
