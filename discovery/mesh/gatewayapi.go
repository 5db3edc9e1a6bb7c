package mesh

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// apiIndex has what resources of the Gateway API come to, and what that follows from, so that a
// step derives anew only what it touches. It never changes; a step makes the next one from it.
type apiIndex struct {
	classes   gatewayapi.Classes
	grants    *gatewayapi.Grants
	sets      table[kinds.Key, []*kinds.Resource]   // ListenerSets by their Gateway, the oldest first
	gateways  table[kinds.Key, *gatewayapi.Gateway] // those that are served here
	listening *listening

	routes table[kinds.Key, *attachedRoute]
	naming keyLists[kinds.Key] // routes by the Gateways, ListenerSets and ServiceEntries that they name
	abroad keyLists[string]    // routes by the other namespaces that they send to
	pieces table[gatewayapi.Key, []*gatewayapi.Piece]
	rules  table[gatewayapi.Key, *gatewayapi.Rules]

	faulty table[kinds.Key, []gatewayapi.Problem] // by the Gateway, the route or the policy that was read
	apiStatuses
	policyIndex

	trusted     table[kinds.Key, []gatewayapi.Authority] // authorities by who names them
	authorities *Authorities                             // all of them
}

// listening stands for all listeners. Only the address counts: two meshes have the same one if no
// listener changed in between.
type listening struct{ _ byte }

// attachedRoute is a route with what it comes to.
type attachedRoute struct {
	*gatewayapi.Route

	gatewayapi.Attached
}

// names are what the route depends on by name.
func (r *attachedRoute) names() []kinds.Key { return slices.Concat(r.Parents(), r.Entries) }

// apiKinds are the kinds that an index is made from, without ServiceEntries, which routes may name.
var apiKinds = slices.Concat([]*kinds.Kind{
	gatewayapi.KindGatewayClass, gatewayapi.KindGateway, gatewayapi.KindListenerSet, gatewayapi.KindReferenceGrant, kinds.Secret, kindPool,
}, gatewayapi.Policies, gatewayapi.Routes)

// apiChange is what a step changes of what others read from the index.
type apiChange struct {
	rules    Exchange[*gatewayapi.Rules]
	rehosted []hostAt // hosts for which policies say something else
}

// buildGatewayAPI applies a step to what prev derived from the Gateway API.
func buildGatewayAPI(now configstore.Step, prev, m *Mesh, services Exchange[*Service]) (*apiIndex, apiChange) {
	before := prev.api
	first := before == nil
	if first {
		before = &apiIndex{listening: new(listening)}
	}
	moved, pools := before.askedHosts(prev.services, m.services, services), m.services.pools.movedBy(now, services)
	if !first && len(moved) == 0 && prev.unchanged(now, apiKinds...) && !before.namesOneOf(now.Edits(kindServiceEntry)) && !before.secures(services) && len(pools) == 0 {
		return before, apiChange{}
	}
	u := apiUpdate{
		apiIndex: *before, before: before, mesh: m, now: now, dirtyGateways: map[kinds.Key]bool{}, dirtyRoutes: map[kinds.Key]bool{},
		touched: map[gatewayapi.Key]Exchange[*gatewayapi.Piece]{}, restated: map[kinds.Key]bool{},
		dirtyHosts: map[hostKey]bool{}, restatedPolicies: map[kinds.Key]bool{}, restatedPools: pools,
	}
	for _, host := range moved {
		u.dirty(u.asking.get(host))
	}
	u.readClasses(first)
	u.readGrants(first)
	u.readSets()
	u.readGateways()
	u.readRoutes()
	u.secured(services)
	u.readPolicies()
	u.statePools()
	u.state()
	u.listAuthorities()
	return u.done()
}

// namesOneOf reports whether a route or a policy names one of the ServiceEntries that were edited.
func (x *apiIndex) namesOneOf(entries []configstore.Edit) bool {
	return x.naming.parts.size+x.entries.parts.size > 0 && slices.ContainsFunc(entries, func(e configstore.Edit) bool {
		key := cmp.Or(e.After, e.Before).Key()
		return x.naming.has(key) || x.entries.has(key)
	})
}

// secures reports whether a policy is for one of the services that went or came.
func (x *apiIndex) secures(services Exchange[*Service]) bool {
	return x.at.parts.size > 0 && slices.ContainsFunc(slices.Concat(services.Gone, services.Come), func(s *Service) bool { return x.at.has(s.Hostname) })
}

// allRules lists the rules that all routes come to.
func (x *apiIndex) allRules() (out []*gatewayapi.Rules) {
	for _, rules := range x.rules.each() {
		out = append(out, rules)
	}
	return out
}

// problems lists what is wrong with Gateways and routes, sorted.
func (x *apiIndex) problems() (out []Problem) {
	for _, list := range x.faulty.each() {
		for _, p := range list {
			out = append(out, Problem(p))
		}
	}
	return sorted(out)
}

// apiUpdate is the next index in the making.
type apiUpdate struct {
	apiIndex

	before        *apiIndex
	mesh          *Mesh // in the making: its services and secrets are there
	now           configstore.Step
	dirtyGateways map[kinds.Key]bool
	dirtyRoutes   map[kinds.Key]bool
	touched       map[gatewayapi.Key]Exchange[*gatewayapi.Piece]
	restated      map[kinds.Key]bool // Gateways whose status may differ

	dirtyHosts       map[hostKey]bool   // for which other policies may hold
	restatedPolicies map[kinds.Key]bool // whose status may differ
	rehosted         []hostAt           // for which other policies hold
	restatedPools    map[kinds.Key]bool // whose status may differ
}

// readClasses reads the classes. If others are served than before, all Gateways are read again.
func (u *apiUpdate) readClasses(first bool) {
	if !first && !u.now.Touches(gatewayapi.KindGatewayClass) {
		return
	}
	u.classes = gatewayapi.ReadClasses(u.now.Of(gatewayapi.KindGatewayClass))
	for r := range u.now.Of(gatewayapi.KindGateway) {
		u.dirtyGateways[r.Key()] = true
	}
}

// readGrants reads what namespaces allow others to name. Those who name something in a namespace
// that has changed this are read again.
func (u *apiUpdate) readGrants(first bool) {
	if !first && !u.now.Touches(gatewayapi.KindReferenceGrant) {
		return
	}
	u.grants = gatewayapi.ReadGrants(u.now.Of(gatewayapi.KindReferenceGrant))
	for _, e := range u.now.Edits(gatewayapi.KindReferenceGrant) {
		in := cmp.Or(e.After, e.Before).Namespace
		u.dirty(u.abroad.get(in))
		for key, g := range u.gateways.each() {
			if slices.Contains(g.Abroad, in) {
				u.dirtyGateways[key] = true
			}
		}
	}
}

func (u *apiUpdate) dirty(routes []kinds.Key) {
	for _, key := range routes {
		u.dirtyRoutes[key] = true
	}
}

// readSets sorts ListenerSets to their Gateways, which are read again.
func (u *apiUpdate) readSets() {
	var gone, come []*kinds.Resource
	for _, e := range u.now.Edits(gatewayapi.KindListenerSet) {
		if e.Before != nil {
			gone = append(gone, e.Before)
		}
		if e.After != nil {
			come = append(come, e.After)
		}
		u.dirty(u.naming.get(cmp.Or(e.After, e.Before).Key()))
	}
	of := func(set *kinds.Resource) []kinds.Key { return []kinds.Key{gatewayapi.SetParent(set)} }
	for _, set := range slices.Concat(gone, come) {
		u.dirtyGateways[gatewayapi.SetParent(set)] = true
	}
	u.sets = patchedLists(u.sets, gone, come, of, kinds.CompareAge)
}

// readGateways reads the Gateways again that may differ. Their routes are looked at again.
func (u *apiUpdate) readGateways() {
	for _, e := range u.now.Edits(gatewayapi.KindGateway) {
		u.dirtyGateways[cmp.Or(e.After, e.Before).Key()] = true
	}
	if len(u.dirtyGateways) == 0 {
		return
	}
	gateways, faulty := u.gateways.edit(), u.faulty.edit()
	for key := range u.dirtyGateways {
		var g *gatewayapi.Gateway
		sets := u.sets.get(key)
		if r := u.now.Get(key); r != nil {
			g = gatewayapi.ReadGateway(r, sets, u.classes, u.grants)
		}
		u.noteSecrets(key, gateways.get(key), g)
		u.noteAuthorities(key, g.Authorities(u.mesh.secrets.clientTrust))
		u.restated[key] = true
		gateways.put(key, g, g == nil)
		faulty.put(key, problemsOf(g), len(problemsOf(g)) == 0)
		u.dirty(u.naming.get(key))
		for _, set := range sets {
			u.dirty(u.naming.get(set.Key()))
		}
	}
	u.gateways, u.faulty, u.listening = gateways.done(), faulty.done(), new(listening)
}

func problemsOf(g *gatewayapi.Gateway) []gatewayapi.Problem {
	if g == nil {
		return nil
	}
	return g.Problems
}

// listeners are those of the Gateway that is meant, or that a ListenerSet adds to.
func (u *apiUpdate) listeners(of kinds.Key) []*gatewayapi.Listener {
	if of.Kind == gatewayapi.KindListenerSet {
		set := u.now.Get(of)
		if set == nil {
			return nil
		}
		of = gatewayapi.SetParent(set)
	}
	if g := u.gateways.get(of); g != nil {
		return g.Listeners
	}
	return nil
}

// hosts are those of a ServiceEntry.
func (u *apiUpdate) hosts(entry kinds.Key) []string { return hostsOfEntry(u.now, entry) }

func hostsOfEntry(now configstore.Step, entry kinds.Key) []string {
	if r := now.Get(entry); r != nil {
		return specOf[*networking.ServiceEntry](r).GetHosts()
	}
	return nil
}

// readRoutes attaches the routes again that may differ.
func (u *apiUpdate) readRoutes() {
	for _, kind := range gatewayapi.Routes {
		for _, e := range u.now.Edits(kind) {
			u.dirtyRoutes[cmp.Or(e.After, e.Before).Key()] = true
		}
	}
	for _, e := range u.now.Edits(kindServiceEntry) {
		u.dirty(u.naming.get(cmp.Or(e.After, e.Before).Key()))
	}
	var gone, come []*attachedRoute
	faulty := u.faulty.edit()
	for key := range u.dirtyRoutes {
		was := u.routes.get(key)
		is := u.attached(key, was)
		u.exchange(was, is)
		faulty.put(key, is.problems(), len(is.problems()) == 0)
		if was != nil {
			gone = append(gone, was)
		}
		if is != nil {
			come = append(come, is)
		}
	}
	u.faulty = faulty.done()
	u.note(gone, come)
}

// attached attaches a route; nil if there is none. Pieces that say the same as before stay.
func (u *apiUpdate) attached(key kinds.Key, was *attachedRoute) *attachedRoute {
	r := u.now.Get(key)
	if r == nil {
		return nil
	}
	is := &attachedRoute{}
	if was != nil && was.Resource == r {
		is.Route = was.Route
	} else {
		is.Route = gatewayapi.ReadRoute(r)
	}
	is.Attached = is.Attach(u.listeners, gatewayapi.World{Grants: u.grants, Hosts: u.hosts, Known: u.mesh.services.known})
	if was == nil {
		return is
	}
	for i, p := range is.Pieces {
		if at := slices.IndexFunc(was.Pieces, p.Same); at >= 0 {
			is.Pieces[i] = was.Pieces[at]
		}
	}
	return is
}

// problems are those of the route, which may be none.
func (r *attachedRoute) problems() []gatewayapi.Problem {
	if r == nil {
		return nil
	}
	return r.Attached.Problems
}

// exchange notes the pieces of a route that went and came.
func (u *apiUpdate) exchange(was, is *attachedRoute) {
	var before, now []*gatewayapi.Piece
	if was != nil {
		before = was.Pieces
	}
	if is != nil {
		now = is.Pieces
	}
	for _, p := range without(before, now) {
		x := u.touched[p.Key]
		x.Gone = append(x.Gone, p)
		u.touched[p.Key] = x
	}
	for _, p := range without(now, before) {
		x := u.touched[p.Key]
		x.Come = append(x.Come, p)
		u.touched[p.Key] = x
	}
}

// note keeps what routes depend on.
func (u *apiUpdate) note(gone, come []*attachedRoute) {
	routes := u.routes.edit()
	routes.expect(len(come) - len(gone))
	for _, r := range gone {
		routes.remove(r.Resource.Key())
	}
	for _, r := range come {
		routes.set(r.Resource.Key(), r)
	}
	u.routes = routes.done()
	u.naming = changedKeys(u.naming, gone, come, (*attachedRoute).names)
	u.abroad = changedKeys(u.abroad, gone, come, func(r *attachedRoute) []string { return r.Abroad })
	u.asking = changedKeys(u.asking, gone, come, func(r *attachedRoute) []string { return r.Asked })
	u.sending = changedKeys(u.sending, gone, come, func(r *attachedRoute) []string { return r.Leads })
	for _, r := range slices.Concat(gone, come) {
		for _, host := range r.Leads {
			u.secureAgain(host)
			u.leadsToPool(host)
		}
	}
	u.count(gone, come)
}

// done merges the pieces that changed.
func (u *apiUpdate) done() (*apiIndex, apiChange) {
	var out Exchange[*gatewayapi.Rules]
	pieces, rules := u.pieces.edit(), u.rules.edit()
	pieces.expect(len(u.touched))
	rules.expect(len(u.touched))
	for key, c := range u.touched {
		if was := rules.get(key); was != nil {
			out.Gone = append(out.Gone, was)
		}
		list := append(without(pieces.get(key), c.Gone), c.Come...)
		var is *gatewayapi.Rules
		if len(list) > 0 {
			is = gatewayapi.Merge(list)
			out.Come = append(out.Come, is)
		}
		pieces.put(key, list, is == nil)
		rules.put(key, is, is == nil)
	}
	x := u.apiIndex
	x.pieces, x.rules = pieces.done(), rules.done()
	return &x, apiChange{out, u.rehosted}
}
