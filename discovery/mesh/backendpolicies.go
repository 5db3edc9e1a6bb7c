package mesh

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// BackendPolicies is what BackendTLSPolicies and XBackendTrafficPolicies of its namespace have for a
// service.
type BackendPolicies struct {
	From []kinds.Key

	retries *networking.TrafficPolicy_RetryBudget
	session *gatewayapi.Session
	every   *networking.ClientTLSSettings
	ports   map[string]*networking.ClientTLSSettings // by name
}

// Retries bounds retries; nil if no policy does.
func (t *BackendPolicies) Retries() *networking.TrafficPolicy_RetryBudget {
	if t == nil {
		return nil
	}
	return t.retries
}

// Session has requests of one session go to one endpoint; nil if no policy says so. It is the same one
// for as long as it says the same.
func (t *BackendPolicies) Session() *gatewayapi.Session {
	if t == nil {
		return nil
	}
	return t.session
}

// TLS is that of a port; nil if no policy is for it.
func (t *BackendPolicies) TLS(port *Port) *networking.ClientTLSSettings {
	if t == nil {
		return nil
	}
	if own := t.ports[port.Name]; own != nil {
		return own
	}
	return t.every
}

// SecuresAlike reports whether policies ask for TLS on the same ports. What they say of it may differ.
func (t *BackendPolicies) SecuresAlike(other *BackendPolicies) bool {
	if t == other {
		return true
	}
	t, other = cmp.Or(t, &BackendPolicies{}), cmp.Or(other, &BackendPolicies{})
	return (t.every == nil) == (other.every == nil) && maps.EqualFunc(t.ports, other.ports, func(_, _ *networking.ClientTLSSettings) bool { return true })
}

// from are the policies; none for none.
func (t *BackendPolicies) from() []kinds.Key {
	if t == nil {
		return nil
	}
	return t.From
}

// policiesOf is what holds for a host; nil if nothing does. It is the one before if that says the same.
func policiesOf(h *gatewayapi.Held, before *BackendPolicies) *BackendPolicies {
	now := &BackendPolicies{From: h.From(), ports: map[string]*networking.ClientTLSSettings{}}
	if len(now.From) == 0 {
		return nil
	}
	if h.Every != nil {
		now.every = h.Every.TLS
	}
	for name, s := range h.Ports {
		now.ports[name] = s.TLS
	}
	if h.Traffic != nil {
		now.retries, now.session = h.Traffic.Retries, h.Traffic.Session
	}
	if was := before.Session(); was != nil && now.session != nil && *was == *now.session {
		now.session = was
	}
	if before != nil && now.same(before) {
		return before
	}
	return now
}

func (t *BackendPolicies) same(other *BackendPolicies) bool {
	return slices.Equal(t.From, other.From) && proto.Equal(t.every, other.every) && proto.Equal(t.retries, other.retries) && t.session == other.session &&
		maps.EqualFunc(t.ports, other.ports, func(a, b *networking.ClientTLSSettings) bool { return proto.Equal(a, b) })
}

// policyIndex has the policies of services, and for which hosts they hold.
type policyIndex struct {
	policies table[kinds.Key, *gatewayapi.Holding]
	at       keyLists[string]            // policies by their hosts
	entries  keyLists[kinds.Key]         // policies by the ServiceEntries that they name
	trusting keyLists[gatewayapi.Secret] // policies by the secrets that they have authorities from
	held     table[hostKey, *heldPolicies]
	sending  keyLists[string] // routes by the hosts that they send to
}

// heldPolicies is how policies hold for a host.
type heldPolicies struct {
	*gatewayapi.Held

	all *BackendPolicies
}

// backendPolicies is what policies have for a service; nil if there is none.
func (x *apiIndex) backendPolicies(s *Service) *BackendPolicies {
	if x == nil {
		return nil
	}
	if held := x.held.get(s.key()); held != nil {
		return held.all
	}
	return nil
}

// secured notes which services that policies are for went or came.
func (u *apiUpdate) secured(services Exchange[*Service]) {
	for _, s := range slices.Concat(services.Gone, services.Come) {
		u.secureAgain(s.Hostname)
	}
}

// secureAgain notes that policies may hold otherwise for a host, or stand otherwise at Gateways.
func (u *apiUpdate) secureAgain(host string) {
	for _, policy := range u.at.get(host) {
		u.dirtyHosts[hostKey{policy.Namespace, host}] = true
	}
}

// readPolicies reads the policies again that may differ, and decides anew where they hold.
func (u *apiUpdate) readPolicies() {
	for key := range u.dirtyPolicies() {
		u.readPolicy(key)
	}
	held := u.held.edit()
	for at := range u.dirtyHosts {
		all, was := u.policiesAt(at), held.get(at)
		if was == nil {
			was = &heldPolicies{}
		}
		is := &heldPolicies{Held: gatewayapi.Hold(at.host, all, u.portsOf(at))}
		is.all = policiesOf(is.Held, was.all)
		held.put(at, is, len(all) == 0)
		if is.all != was.all {
			u.rehosted = append(u.rehosted, placeOf(at.namespace, at.host))
		}
		for _, s := range all {
			u.restatedPolicies[s.Key()] = true
		}
	}
	u.held = held.done()
	u.statePolicies()
}

// dirtyPolicies are those that were edited, or that name what was.
func (u *apiUpdate) dirtyPolicies() map[kinds.Key]bool {
	all := map[kinds.Key]bool{}
	for _, kind := range gatewayapi.Policies {
		for _, e := range u.now.Edits(kind) {
			all[cmp.Or(e.After, e.Before).Key()] = true
		}
	}
	if u.policies.size == 0 {
		return all
	}
	for _, e := range u.now.Edits(kindServiceEntry) {
		for _, key := range u.entries.get(cmp.Or(e.After, e.Before).Key()) {
			all[key] = true
		}
	}
	for _, e := range u.now.Edits(kinds.Secret) {
		r := cmp.Or(e.After, e.Before)
		for _, key := range u.trusting.get(gatewayapi.Secret{Namespace: r.Namespace, Name: r.Name}) {
			all[key] = true
		}
	}
	return all
}

// readPolicy reads a policy again, which may be gone.
func (u *apiUpdate) readPolicy(key kinds.Key) {
	was, r := u.policies.get(key), u.now.Get(key)
	var is *gatewayapi.Holding
	if r != nil {
		policy := gatewayapi.ReadPolicy(r)
		is = &gatewayapi.Holding{Policy: policy, Effect: policy.EffectBy(u.mesh.secrets.trust)}
		for _, t := range policy.Targets {
			is.Hosts = append(is.Hosts, u.hostsOf(t))
		}
	}
	policies := u.policies.edit()
	policies.put(key, is, is == nil)
	u.policies = policies.done()
	gone, come := some(was), some(is)
	u.at = changedKeys(u.at, gone, come, hostsOfPolicy)
	u.entries = changedKeys(u.entries, gone, come, (*gatewayapi.Holding).Entries)
	u.trusting = changedKeys(u.trusting, gone, come, func(s *gatewayapi.Holding) []gatewayapi.Secret { return s.Secrets })
	for _, s := range slices.Concat(gone, come) {
		for _, host := range hostsOfPolicy(s) {
			u.dirtyHosts[hostKey{key.Namespace, host}] = true
		}
	}
	u.restatedPolicies[key] = true
	u.noteAuthorities(key, is.Authorities())
}

// hostsOf are the hosts of a target.
func (u *apiUpdate) hostsOf(t gatewayapi.PolicyTarget) []string {
	switch {
	case t.Host != "":
		return []string{t.Host}
	case t.Entry != (kinds.Key{}):
		return u.hosts(t.Entry)
	default:
		return nil
	}
}

// hostsOfPolicy are those of all its targets, each once.
func hostsOfPolicy(s *gatewayapi.Holding) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Hosts...))))
}

// policiesAt are those of a namespace for a host, the oldest first.
func (u *apiUpdate) policiesAt(at hostKey) (out []*gatewayapi.Holding) {
	for _, key := range u.at.get(at.host) {
		if key.Namespace == at.namespace {
			out = append(out, u.policies.get(key))
		}
	}
	slices.SortFunc(out, func(a, b *gatewayapi.Holding) int { return kinds.CompareAge(a.Resource, b.Resource) })
	return out
}

// portsOf are the names of the ports of a host; nil if there is no such service.
func (u *apiUpdate) portsOf(at hostKey) (names []string) {
	for _, s := range u.mesh.services.byHost.get(at.host) {
		if s.Namespace != at.namespace {
			continue
		}
		names = append([]string{}, names...)
		for _, p := range s.Ports {
			names = append(names, p.Name)
		}
	}
	return names
}

// statePolicies says how policies stand that may stand otherwise.
func (u *apiUpdate) statePolicies() {
	if len(u.restatedPolicies) == 0 {
		return
	}
	statuses, faulty := u.statuses.all.edit(), u.faulty.edit()
	for key := range u.restatedPolicies {
		s := u.policies.get(key)
		if s == nil {
			statuses.remove(key)
			faulty.remove(key)
			continue
		}
		held := func(host string) *gatewayapi.Held { return u.held.get(hostKey{key.Namespace, host}).Held }
		u.put(statuses, key, s.Status(u.ancestors(s), held))
		problems := slices.Concat(s.AllProblems(s.Effect), s.TargetProblems(held))
		faulty.put(key, problems, len(problems) == 0)
	}
	u.statuses.all, u.faulty = statuses.done(), faulty.done()
}

// ancestors are the Gateways whose routes send to what a policy is for.
func (u *apiUpdate) ancestors(s *gatewayapi.Holding) (out []gatewayapi.Ancestor) {
	targets := map[kinds.Key][]int{}
	for i, hosts := range s.Hosts {
		for _, host := range hosts {
			for gateway := range u.leadingTo(hostKey{s.Key().Namespace, host}) {
				targets[gateway] = append(targets[gateway], i)
			}
		}
	}
	for gateway, of := range targets {
		out = append(out, gatewayapi.Ancestor{Gateway: gateway, Targets: slices.Compact(of)})
	}
	slices.SortFunc(out, func(a, b gatewayapi.Ancestor) int { return a.Gateway.Compare(b.Gateway) })
	return out
}

// leadingTo are the Gateways whose routes send to the service of a namespace.
func (u *apiUpdate) leadingTo(to hostKey) map[kinds.Key]bool {
	means := map[string]bool{}
	return u.sendingTo(to.host, func(namespace string) bool {
		meant, known := means[namespace]
		if !known {
			meant = u.means(namespace, to)
			means[namespace] = meant
		}
		return meant
	})
}

// sendingTo are the Gateways whose routes send to a host, of the namespaces that are led to what it is
// about.
func (u *apiUpdate) sendingTo(host string, led func(namespace string) bool) map[kinds.Key]bool {
	gateways := map[kinds.Key]bool{}
	for _, route := range u.sending.get(host) {
		for _, at := range u.routes.get(route).At {
			if gateway := u.gatewayOf(at.Of); led(gateway.Namespace) {
				gateways[gateway] = true
			}
		}
	}
	return gateways
}

// means reports whether gateways of a namespace are led to a service by its host. Others may have the host,
// too. Where nobody has it, what is said of it is meant.
func (u *apiUpdate) means(gateways string, to hostKey) bool {
	c, e := catalog{services: u.mesh.services}, &Egress{namespace: gateways, router: true, wanted: everything(gateways)}
	seen := c.servicesOf(to.host, e)
	if len(seen) == 0 {
		return u.portsOf(to) == nil
	}
	return seen[0].Namespace == to.namespace
}

// trust is the authorities that a secret has.
func (x secretIndex) trust(s gatewayapi.Secret) (credential.Trust, bool) {
	has := x.good(s)
	if has == nil || has.Trust == nil {
		return credential.Trust{}, false
	}
	return *has.Trust, true
}
