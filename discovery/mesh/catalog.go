package mesh

import "slices"

// catalog finds services and VirtualServices without a walk over the whole mesh, for scopes that a Sidecar makes small.
type catalog struct {
	services byNamespace[*Service]
	virtual  byNamespace[*VirtualService]
	byHost   map[string][]*Service
}

// byNamespace has the values of each namespace in the order of all.
type byNamespace[T any] struct {
	all []T
	in  map[string][]T
}

func group[T any](all []T, namespace func(T) string) byNamespace[T] {
	out := byNamespace[T]{all: all, in: map[string][]T{}}
	for _, v := range all {
		out.in[namespace(v)] = append(out.in[namespace(v)], v)
	}
	return out
}

// of lists the values of these namespaces, in the order given by compare.
func (b byNamespace[T]) of(wanted imports, compare func(a, b T) int) []T {
	namespaces, all := wanted.namespaces()
	if all {
		return b.all
	}
	if len(namespaces) == 1 {
		return b.in[namespaces[0]]
	}
	var out []T
	for _, namespace := range namespaces {
		out = append(out, b.in[namespace]...)
	}
	slices.SortStableFunc(out, compare)
	return out
}

// buildCatalog takes over from prev what did not change; same tells whether that is so of the services and of the VirtualServices.
func buildCatalog(m, prev *Mesh, sameServices, sameVirtual bool) catalog {
	out := prev.catalog
	if !sameServices {
		out.services = group(m.services.all, func(s *Service) string { return s.Namespace })
		out.byHost = make(map[string][]*Service, len(m.services.all))
		for _, s := range m.services.all {
			out.byHost[s.Hostname] = append(out.byHost[s.Hostname], s)
		}
	}
	if !sameVirtual {
		out.virtual = group(m.virtual.mesh, func(vs *VirtualService) string { return vs.Resource.Namespace })
	}
	return out
}

// servicesFor lists what is exported to a namespace and wanted there: what is exported to it by name before what is public.
func (c *catalog) servicesFor(namespace string, wanted imports) []*Service {
	var named, public []*Service
	for _, s := range c.services.of(wanted, compareServices) {
		switch {
		case !s.visibility.includes(namespace) || !wanted.service(s.Namespace, s.Hostname):
		case s.visibility.public():
			public = append(public, s)
		default:
			named = append(named, s)
		}
	}
	return append(named, public...)
}

// virtualServicesFor lists the rules that a namespace obeys for what is wanted.
func (c *catalog) virtualServicesFor(namespace string, wanted imports) []*VirtualService {
	var out []*VirtualService
	for _, vs := range c.virtual.of(wanted, compareVirtualServices) {
		if wanted.virtualService(vs.Resource.Namespace, vs.Spec.GetHosts()) {
			out = append(out, vs)
		}
	}
	return obeyedIn(namespace, out)
}

// destination finds the service for a host that a rule of a namespace sends traffic to: the namespace's own, else the oldest that
// it may see.
func (c *catalog) destination(namespace, host string) *Service {
	var oldest *Service
	for _, s := range c.byHost[host] {
		if s.Namespace == namespace {
			return s
		}
		if oldest == nil && s.visibility.includes(namespace) {
			oldest = s
		}
	}
	return oldest
}
