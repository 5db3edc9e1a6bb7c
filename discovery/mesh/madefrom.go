package mesh

import (
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// MadeFrom lists the resources that the service is made from, each once: the ServiceEntries for its
// host, its own first, and the WorkloadEntries among its endpoints.
func (s *Service) MadeFrom() []kinds.Key {
	out := s.Entries()
	seen := map[workloadKey]bool{}
	for _, e := range s.Endpoints {
		of := workloadKey{e.Namespace, e.Workload}
		if e.standalone && !seen[of] {
			seen[of] = true
			out = append(out, kinds.Key{Kind: kindWorkloadEntry, Namespace: e.Namespace, Name: e.Workload})
		}
	}
	return out
}

type workloadKey struct{ namespace, name string }

// Entries lists the ServiceEntries that the service is made from, its own first.
func (s *Service) Entries() []kinds.Key {
	out := []kinds.Key{s.Entry.Key()}
	for _, r := range s.sharing {
		if r != s.Entry {
			out = append(out, r.Key())
		}
	}
	return out
}

// MadeFrom lists the VirtualService and the delegates whose routes it has, or the routes of the
// Gateway API that it stands for.
func (vs *VirtualService) MadeFrom() []kinds.Key {
	if vs.routes != nil {
		return vs.routes.From
	}
	out := []kinds.Key{vs.Resource.Key()}
	for _, r := range vs.included {
		out = append(out, r.Key())
	}
	return out
}

// MadeFrom lists the Gateways of the frontend, and the VirtualServices that are bound to them, each
// once.
func (f *Frontend) MadeFrom() []kinds.Key {
	var out []kinds.Key
	seen := map[kinds.Key]bool{}
	add := func(keys ...kinds.Key) {
		for _, key := range keys {
			if !seen[key] {
				seen[key] = true
				out = append(out, key)
			}
		}
	}
	for _, g := range f.from.gateways {
		add(g.from...)
	}
	for _, g := range f.from.gateways {
		for _, vs := range f.from.rules[g.name] {
			add(vs.MadeFrom()...)
		}
	}
	return out
}

func (s *Secret) key() kinds.Key {
	return kinds.Key{Kind: kinds.Secret, Namespace: s.Namespace, Name: s.Name}
}

// rulesOf lists the resources of the rules for a host that are for everybody, each once.
func rulesOf(rules []*DestinationRule) (out []kinds.Key) {
	for _, rule := range rules {
		if rule.forWorkloads() {
			continue
		}
		for _, key := range rule.From {
			if !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	return out
}
