package mesh

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/reference"
)

// MeshGateway is the name by which a VirtualService means the sidecars.
const MeshGateway = reference.Mesh

// VirtualService is one with every short host name in it completed, or what routes of the Gateway
// API come to.
type VirtualService struct {
	Resource *kinds.Resource
	Spec     *networking.VirtualService

	routes     *gatewayapi.Rules // nil for one that somebody wrote
	visibility visibility
	delegates  []*kinds.Resource // those that its routes name; nil for one that does not exist
	included   []*kinds.Resource // those of them whose routes it has
	problems   []Problem
	sources    []string          // the labels by which its matches choose proxies
	sendsTo    []destinationHost // where its routes lead, with ports
	requestsTo []string          // the hosts of HTTP destinations and mirrors, and of who is asked about requests
	// matchesNamespace says that some matches are only for clients of one namespace.
	matchesNamespace bool
	// These are known of each rule, since each step asks for those of all rules of a listener.
	hasSessions, hasAuthorizations, leadsToPool bool
}

// virtualServiceIndex has every VirtualService. It never changes; a step makes the next one from
// it.
type virtualServiceIndex struct {
	mesh        []*VirtualService // those for sidecars, the oldest first
	byNamespace table[string, []*VirtualService]
	byGateway   table[string, []*VirtualService] // those for routers, by namespace/name of the Gateway
	resolved    table[*kinds.Resource, *VirtualService]
	delegating  table[kinds.Key, []*kinds.Resource] // those with routes that delegate, by the delegate
	faulty      []*VirtualService                   // those with problems

	sourceLabels  labelCounts // that sidecars must match
	gatewayLabels labelCounts // that routers must match
}

// buildVirtualServices applies a step to the rules of prev, and what it changes of the rules that
// routes come to. It also returns which rules for sidecars went and came.
func buildVirtualServices(now configstore.Step, prev, m *Mesh, routes Exchange[*gatewayapi.Rules]) (*virtualServiceIndex, Exchange[*VirtualService]) {
	before, exportDefault := prev.virtual, m.Config.GetDefaultVirtualServiceExportTo()
	edits := now.Edits(kindVirtualService)
	switch {
	case before == nil || !slices.Equal(prev.Config.GetDefaultVirtualServiceExportTo(), exportDefault):
		before, edits, routes = &virtualServiceIndex{}, now.All(kindVirtualService), Exchange[*gatewayapi.Rules]{Come: m.api.allRules()}
	case len(edits)+len(routes.Gone)+len(routes.Come) == 0:
		return before, Exchange[*VirtualService]{}
	}
	u := virtualServiceUpdate{
		virtualServiceIndex: *before, snapshot: now.Snapshot,
		delegation: delegation{delegates: map[*kinds.Resource]*VirtualService{}, exportDefault: exportDefault},
		changed:    map[*kinds.Resource]*kinds.Resource{},
	}
	delegators := map[*kinds.Resource]bool{}
	for _, e := range edits {
		u.note(e.Before, e.After)
		for _, r := range before.delegating.get(cmp.Or(e.Before, e.After).Key()) {
			delegators[r] = true
		}
	}
	for r := range delegators {
		if _, changed := u.changed[r]; !changed {
			u.note(r, r)
		}
	}
	u.noteRoutes(routes)
	return u.done()
}

// virtualServiceUpdate is the next index in the making.
type virtualServiceUpdate struct {
	virtualServiceIndex
	delegation

	snapshot   *configstore.Snapshot
	changed    map[*kinds.Resource]*kinds.Resource // from the old resource to the new one
	gone, come []*VirtualService
}

// note records a resource before and after. Either may be nil, and both are the same if one that it
// delegates to changed.
func (u *virtualServiceUpdate) note(was, is *kinds.Resource) {
	if was != nil {
		u.changed[was] = is
		u.gone = append(u.gone, u.resolved.get(was))
	}
	if is != nil {
		vs := resolveVirtualService(is, u.exportDefault)
		vs.delegates = delegatesOf(u.snapshot, is)
		u.expand(vs)
		vs.leaveOutUnreadable()
		vs.complete()
		u.come = append(u.come, vs)
	}
}

// noteRoutes records the rules of routes that went and came.
func (u *virtualServiceUpdate) noteRoutes(x Exchange[*gatewayapi.Rules]) {
	for _, rules := range x.Gone {
		u.gone = append(u.gone, u.resolved.get(rules.Resource))
	}
	for _, rules := range x.Come {
		u.come = append(u.come, fromRoutes(rules, u.exportDefault))
	}
}

// done makes the next index. It also returns which rules for sidecars went and came; routers find
// theirs by Gateway.
func (u *virtualServiceUpdate) done() (*virtualServiceIndex, Exchange[*VirtualService]) {
	x := u.virtualServiceIndex
	resolved := x.resolved.edit()
	resolved.expect(len(u.come) - len(u.gone))
	for _, vs := range u.gone {
		resolved.remove(vs.Resource)
	}
	for _, vs := range u.come {
		resolved.set(vs.Resource, vs)
	}
	x.resolved = resolved.done()
	x.delegating = patchedLists(x.delegating, resourcesOf(u.gone), resourcesOf(u.come), delegateKeys, kinds.CompareAge)
	x.faulty = patched(x.faulty, those(u.gone, (*VirtualService).hasProblems), those(u.come, (*VirtualService).hasProblems), compareVirtualServices)
	gone, come := those(u.gone, (*VirtualService).forSidecars), those(u.come, (*VirtualService).forSidecars)
	x.mesh = patched(x.mesh, gone, come, compareVirtualServices)
	x.byNamespace = patchedLists(x.byNamespace, gone, come, func(vs *VirtualService) []string { return []string{vs.Resource.Namespace} }, compareVirtualServices)
	x.sourceLabels = x.sourceLabels.changed(sourcesOf(gone), sourcesOf(come))
	forSidecars := Exchange[*VirtualService]{gone, come}
	gone, come = those(u.gone, (*VirtualService).forRouters), those(u.come, (*VirtualService).forRouters)
	x.byGateway = patchedLists(x.byGateway, gone, come, (*VirtualService).routerGateways, compareVirtualServices)
	x.gatewayLabels = x.gatewayLabels.changed(sourcesOf(gone), sourcesOf(come))
	return &x, forSidecars
}

// those returns the ones for which is holds.
func those(list []*VirtualService, is func(*VirtualService) bool) []*VirtualService {
	return slices.DeleteFunc(slices.Clone(list), func(vs *VirtualService) bool { return !is(vs) })
}

// resourcesOf are the resources of those that somebody wrote.
func resourcesOf(list []*VirtualService) (out []*kinds.Resource) {
	for _, vs := range list {
		if vs.routes == nil {
			out = append(out, vs.Resource)
		}
	}
	return out
}

func sourcesOf(list []*VirtualService) (names []string) {
	for _, vs := range list {
		names = append(names, vs.sources...)
	}
	return names
}

// ForConnections reports whether the rule routes connections, by TCP or TLS.
func (vs *VirtualService) ForConnections() bool {
	return len(vs.Spec.GetTcp())+len(vs.Spec.GetTls()) > 0
}

func (vs *VirtualService) hasProblems() bool { return len(vs.problems) > 0 }

func (vs *VirtualService) forSidecars() bool { return !isDelegate(vs.Spec) && vs.bindsTo(MeshGateway) }

func (vs *VirtualService) forRouters() bool { return len(vs.routerGateways()) > 0 }

// routerGateways are the Gateways that it is bound to, each once.
func (vs *VirtualService) routerGateways() []string {
	if isDelegate(vs.Spec) {
		return nil
	}
	gateways := slices.Compact(slices.Sorted(slices.Values(vs.Spec.GetGateways())))
	return slices.DeleteFunc(gateways, func(gateway string) bool { return gateway == MeshGateway })
}

// complete records what follows from the routes, once all of them are there.
func (vs *VirtualService) complete() {
	names := labelKeys{}
	names.addSources(vs)
	vs.sources = slices.Collect(maps.Keys(names))
	vs.sendsTo = destinationPorts(vs.Spec)
	vs.requestsTo = hostsOf(&networking.VirtualService{Http: vs.Spec.GetHttp()})
	vs.leadsToPool = slices.ContainsFunc(vs.requestsTo, gatewayapi.IsPoolHost)
	vs.matchesNamespace = slices.ContainsFunc(vs.Spec.GetHttp(), func(route *networking.HTTPRoute) bool {
		return slices.ContainsFunc(route.GetMatch(), func(m *networking.HTTPMatchRequest) bool { return m.GetSourceNamespace() != "" })
	})
}

// RequestsTo are the hosts that HTTP requests, or copies of them, are sent to, or that are asked about
// them.
func (vs *VirtualService) RequestsTo() []string { return vs.requestsTo }

func hostsOf(spec *networking.VirtualService) (hosts []string) {
	for _, d := range Destinations(spec) {
		if !slices.Contains(hosts, d.GetHost()) {
			hosts = append(hosts, d.GetHost())
		}
	}
	return hosts
}

// destinationsFor lists the hosts that clients in a namespace are sent to.
func (vs *VirtualService) destinationsFor(namespace string) []destinationHost {
	if !vs.matchesNamespace {
		return vs.sendsTo
	}
	return destinationPorts(withoutForeignRoutes(vs.Spec, namespace))
}

// The ranks of rules for the proxies of a namespace: those private to it come first, then those
// exported to it by name, then public ones, and of these first the namespace's own routes.
const (
	rankPrivate = iota
	rankNamed
	rankOwnRoutes
	rankPublic
	ranks
)

func (vs *VirtualService) rank(namespace string) int {
	own := vs.Resource.Namespace == namespace
	switch {
	case vs.visibility.public() && own && vs.routes != nil:
		return rankOwnRoutes
	case vs.visibility.public():
		return rankPublic
	case own:
		return rankPrivate
	default:
		return rankNamed
	}
}

// obeyedIn picks the rules that proxies in a namespace obey, by their ranks.
func obeyedIn(namespace string, list []*VirtualService) []*VirtualService {
	var byRank [ranks][]*VirtualService
	for _, vs := range list {
		if vs.visibility.includes(namespace) {
			rank := vs.rank(namespace)
			byRank[rank] = append(byRank[rank], vs)
		}
	}
	return slices.Concat(byRank[:]...)
}

// obeyedBefore is the order of obeyedIn, for rules that a namespace obeys.
func obeyedBefore(namespace string) order[*VirtualService] {
	return func(a, b *VirtualService) int {
		return cmp.Or(cmp.Compare(a.rank(namespace), b.rank(namespace)), compareVirtualServices(a, b))
	}
}

// bindsTo reports whether the VirtualService is for this gateway: MeshGateway, or namespace/name.
func (vs *VirtualService) bindsTo(gateway string) bool {
	if len(vs.Spec.GetGateways()) == 0 {
		return gateway == MeshGateway
	}
	return slices.Contains(vs.Spec.GetGateways(), gateway)
}

// addSources collects the labels by which the matches of a rule choose proxies.
func (k labelKeys) addSources(vs *VirtualService) {
	for _, route := range vs.Spec.GetHttp() {
		for _, m := range route.GetMatch() {
			k.add(m.GetSourceLabels())
		}
	}
	for _, route := range vs.Spec.GetTcp() {
		for _, m := range route.GetMatch() {
			k.add(m.GetSourceLabels())
		}
	}
	for _, route := range vs.Spec.GetTls() {
		for _, m := range route.GetMatch() {
			k.add(m.GetSourceLabels())
		}
	}
}

// resolveVirtualService completes short names in a copy: resources are shared, and never change.
func resolveVirtualService(r *kinds.Resource, exportDefault []string) *VirtualService {
	spec := proto.CloneOf(specOf[*networking.VirtualService](r))
	reference.Complete(kindVirtualService, spec, r.Namespace)
	return &VirtualService{Resource: r, Spec: spec, visibility: exported(spec.GetExportTo(), exportDefault, r.Namespace)}
}

// Destinations lists every destination in a VirtualService.
func Destinations(spec *networking.VirtualService) []*networking.Destination {
	return reference.Messages[*networking.Destination](kindVirtualService, spec)
}

// Serves reports whether one of the hosts of the VirtualService overlaps with host.
func (vs *VirtualService) Serves(host string) bool {
	return slices.ContainsFunc(vs.Spec.GetHosts(), func(h string) bool { return hostname.Overlap(h, host) })
}

// compareVirtualServices sorts the older first, as the snapshot does.
func compareVirtualServices(a, b *VirtualService) int {
	return kinds.CompareAge(a.Resource, b.Resource)
}
