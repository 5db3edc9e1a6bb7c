package mesh

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// APIStatuses has the status of each resource of the Gateway API, as far as a mesh decides it. It
// never changes.
type APIStatuses struct {
	all table[kinds.Key, *gatewayapi.Status]
}

// apiStatuses has the statuses, and what they depend on.
type apiStatuses struct {
	statuses  APIStatuses
	stated    table[kinds.Key, []kinds.Key]         // Gateways and ListenerSets, by the Gateway with which they have a status
	taken     table[gatewayapi.At, int]             // how many routes a listener has taken
	asking    keyLists[string]                      // routes by the hosts that they name
	certified table[gatewayapi.Secret, []kinds.Key] // Gateways by the secrets that they name
	lending   table[string, []loan]                 // by the namespaces of Gateways
}

// APIStatuses returns the statuses of a mesh.
func (m *Mesh) APIStatuses() APIStatuses {
	if m == nil || m.api == nil {
		return APIStatuses{}
	}
	return m.api.statuses
}

// Since returns the statuses that differ from what they were before. One that is gone is nil. It costs
// about as much as what differs.
func (s APIStatuses) Since(before APIStatuses) map[kinds.Key]*gatewayapi.Status {
	out := map[kinds.Key]*gatewayapi.Status{}
	for key, now := range s.all.unshared(&before.all) {
		if before.all.get(key) != now {
			out[key] = now
		}
	}
	for key := range before.all.unshared(&s.all) {
		if _, is := s.all.find(key); !is {
			out[key] = nil
		}
	}
	return out
}

// askedHosts lists the hosts that routes name and that have come to be those of a service, or ceased
// to be.
func (x *apiIndex) askedHosts(before, now *serviceIndex, services Exchange[*Service]) (out []string) {
	if x.asking.parts.size == 0 || before == nil {
		return nil
	}
	for _, s := range slices.Concat(services.Gone, services.Come) {
		if (len(before.byHost.get(s.Hostname)) > 0) == (len(now.byHost.get(s.Hostname)) > 0) {
			continue
		}
		if !hostname.IsWildcard(s.Hostname) {
			out = append(out, s.Hostname)
			continue
		}
		for _, asked := range x.asking.named() {
			if hostname.Within(asked, s.Hostname) {
				out = append(out, asked)
			}
		}
	}
	return slices.DeleteFunc(out, func(host string) bool { return !x.asking.has(host) })
}

// known reports whether a service has a host, which may be one of a wildcard's.
func (x *serviceIndex) known(host string) bool {
	for rest := host; ; {
		if len(x.byHost.get(host)) > 0 {
			return true
		}
		_, after, found := strings.Cut(rest, ".")
		if !found {
			return false
		}
		rest, host = after, "*."+after
	}
}

// count counts which routes listeners have taken.
func (u *apiUpdate) count(gone, come []*attachedRoute) {
	moved := map[gatewayapi.At]int{}
	for _, r := range gone {
		for _, at := range r.At {
			moved[at]--
		}
	}
	for _, r := range come {
		for _, at := range r.At {
			moved[at]++
		}
	}
	taken := u.taken.edit()
	for at, n := range moved {
		if n == 0 {
			continue
		}
		all := taken.get(at) + n
		taken.put(at, all, all == 0)
		u.restated[u.gatewayOf(at.Of)] = true
	}
	u.taken = taken.done()
	statuses := u.statuses.all.edit()
	for _, r := range slices.Concat(gone, come) {
		statuses.remove(r.Resource.Key())
	}
	for _, r := range come {
		u.put(statuses, r.Resource.Key(), r.Status)
	}
	u.statuses.all = statuses.done()
}

// gatewayOf is the Gateway of a listener that stands in a Gateway or a ListenerSet.
func (u *apiUpdate) gatewayOf(of kinds.Key) kinds.Key {
	if set := u.now.Get(of); set != nil && of.Kind == gatewayapi.KindListenerSet {
		return gatewayapi.SetParent(set)
	}
	return of
}

// state states anew what may differ of Gateways, with their ListenerSets, and of classes.
func (u *apiUpdate) state() {
	for _, e := range u.now.Edits(kinds.Secret) {
		r := cmp.Or(e.After, e.Before)
		for _, key := range u.certified.get(gatewayapi.Secret{Namespace: r.Namespace, Name: r.Name}) {
			u.restated[key] = true
			u.noteAuthorities(key, u.gateways.get(key).Authorities(u.mesh.secrets.clientTrust))
		}
	}
	statuses, stated := u.statuses.all.edit(), u.stated.edit()
	for key := range u.restated { // all go first, for a ListenerSet may change to another Gateway
		for _, of := range stated.get(key) {
			statuses.remove(of)
		}
	}
	for key := range u.restated {
		var all []kinds.Key
		if g := u.gateways.get(key); g != nil {
			for of, s := range g.Statuses(gatewayapi.Beside{Attached: u.taken.get, Known: u.mesh.secrets.certifies, Trusts: u.mesh.secrets.clientTrust}) {
				u.put(statuses, of, s)
				all = append(all, of)
			}
		}
		stated.put(key, all, len(all) == 0)
	}
	for _, e := range u.now.Edits(gatewayapi.KindGatewayClass) {
		var s *gatewayapi.Status
		if e.After != nil {
			s = gatewayapi.StatusOfClass(e.After)
		}
		u.put(statuses, cmp.Or(e.After, e.Before).Key(), s)
	}
	u.statuses.all, u.stated = statuses.done(), stated.done()
}

// put states something; nil is nothing. What is the same as before stays.
func (u *apiUpdate) put(statuses *tableEdit[kinds.Key, *gatewayapi.Status], of kinds.Key, s *gatewayapi.Status) {
	if was := u.before.statuses.all.get(of); was.Equal(s) {
		s = was
	}
	statuses.put(of, s, s == nil)
}

// certifies reports whether there is a secret with a certificate.
func (x secretIndex) certifies(s gatewayapi.Secret) bool {
	has := x.good(s)
	return has != nil && has.Pair != nil
}

// clientTrust is the authorities that clients are checked by: as machines are given them, those of a secret
// with the suffix, or else those of the secret itself.
func (x secretIndex) clientTrust(s gatewayapi.Secret) (credential.Trust, bool) {
	if beside, has := x.trust(gatewayapi.Secret{Namespace: s.Namespace, Name: s.Name + kinds.AuthoritySuffix}); has {
		return beside, true
	}
	return x.trust(s)
}

// loan is a secret of another namespace that a Gateway needs, and may have.
type loan struct {
	secret gatewayapi.Secret
	to     kinds.Key
}

// noteSecrets keeps which secrets a Gateway names.
func (u *apiUpdate) noteSecrets(key kinds.Key, was, is *gatewayapi.Gateway) {
	certified := u.certified.edit()
	for _, g := range []*gatewayapi.Gateway{was, is} {
		if g == nil {
			continue
		}
		for _, s := range g.Secrets() {
			list := slices.DeleteFunc(slices.Clone(certified.get(s)), func(k kinds.Key) bool { return k == key })
			if g == is {
				list = append(list, key)
			}
			certified.put(s, list, len(list) == 0)
		}
	}
	u.certified = certified.done()
	if len(was.Lent())+len(is.Lent()) > 0 {
		u.noteLoans(key, is)
	}
}

// noteLoans keeps which secrets of other namespaces a Gateway needs, which may be gone.
func (u *apiUpdate) noteLoans(key kinds.Key, g *gatewayapi.Gateway) {
	lending := u.lending.edit()
	loans := slices.DeleteFunc(slices.Clone(lending.get(key.Namespace)), func(l loan) bool { return l.to == key })
	for _, s := range g.Lent() {
		loans = append(loans, loan{s, key})
	}
	slices.SortFunc(loans, func(a, b loan) int {
		return cmp.Or(cmp.Compare(a.secret.Namespace, b.secret.Namespace), cmp.Compare(a.secret.Name, b.secret.Name), a.to.Compare(b.to))
	})
	lending.put(key.Namespace, loans, len(loans) == 0)
	u.lending = lending.done()
}

// unshared yields the entries of the parts of a table that another one does not share.
func (t *table[K, V]) unshared(other *table[K, V]) func(yield func(K, V) bool) {
	return func(yield func(K, V) bool) {
		for i, shard := range t.shards {
			if len(t.shards) == len(other.shards) && reflect.ValueOf(shard).Pointer() == reflect.ValueOf(other.shards[i]).Pointer() {
				continue
			}
			for k, v := range shard {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}
