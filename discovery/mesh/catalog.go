package mesh

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// catalog is what scopes are made from. It finds services and VirtualServices without a walk over
// the whole mesh, for scopes that a Sidecar makes small.
type catalog struct {
	config   *meshconfig.MeshConfig
	services *serviceIndex
	virtual  *virtualServiceIndex
	rules    *destinationRuleIndex
	api      *apiIndex
	// providers name the services that telemetry goes to.
	providers *providerIndex
}

// wantedOf lists the values of the wanted namespaces, sorted.
func wantedOf[T any](all []T, byNamespace *table[string, []T], wanted imports, compare order[T]) []T {
	namespaces, every := wanted.namespaces()
	if every {
		return all
	}
	if len(namespaces) == 1 {
		return byNamespace.get(namespaces[0])
	}
	var out []T
	for _, namespace := range namespaces {
		out = append(out, byNamespace.get(namespace)...)
	}
	slices.SortStableFunc(out, compare)
	return out
}

// servicesFor lists the services that a listener wants and that are exported to its namespace:
// those exported to it by name before public ones. If that is every service, it returns the list
// that all share.
func (c *catalog) servicesFor(e *Egress) []*Service {
	var named, public []*Service
	candidates := wantedOf(c.services.all, &c.services.byNamespace, e.wanted, compareServices)
	for _, s := range candidates {
		switch {
		case !e.shows(s):
		case s.visibility.public():
			public = append(public, s)
		default:
			named = append(named, s)
		}
	}
	if len(public) == len(candidates) {
		return candidates
	}
	return append(named, public...)
}

// servicesOf returns those of servicesFor with one host.
func (c *catalog) servicesOf(host string, e *Egress) []*Service {
	var out []*Service
	for _, s := range c.services.byHost.get(host) {
		if e.shows(s) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, compareShown)
	return e.oneNamespaceAHost(out)
}

// compareShown sorts as servicesFor does.
func compareShown(a, b *Service) int {
	switch {
	case a.visibility.public() == b.visibility.public():
		return compareServices(a, b)
	case b.visibility.public():
		return -1
	default:
		return 1
	}
}

// virtualServicesFor lists the rules that a listener obeys. If those are all rules, it returns the
// list that all share.
func (c *catalog) virtualServicesFor(e *Egress) []*VirtualService {
	candidates := wantedOf(c.virtual.mesh, &c.virtual.byNamespace, e.wanted, compareVirtualServices)
	out := obeyedIn(e.namespace, those(candidates, e.obeys))
	if slices.Equal(out, candidates) {
		return candidates
	}
	return out
}

// destination finds the service that a rule of a namespace means by a host: the namespace's own,
// else the oldest that it may see. Of several in one namespace the oldest stands for all, as in
// Istio: if it is hidden, so are they.
func (c *catalog) destination(namespace, host string) *Service {
	var oldest *Service
	services := c.services.byHost.get(host)
	for i, s := range services {
		if s.Namespace == namespace {
			return s
		}
		if oldest == nil && s.visibility.includes(namespace) && !slices.ContainsFunc(services[:i], s.sharesNamespace) {
			oldest = s
		}
	}
	return oldest
}

func (s *Service) sharesNamespace(other *Service) bool { return s.Namespace == other.Namespace }
