package gatewayapi

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/kinds"
)

// Beside is what the status of a Gateway depends on beside the Gateway.
type Beside struct {
	// Attached is how many routes a listener has taken.
	Attached func(At) int
	// Known reports whether there is a secret with a certificate.
	Known func(Secret) bool
	// Trusts finds the authorities that clients are checked by.
	Trusts Trusting
}

// Statuses are those of the Gateway and of its ListenerSets; none if they are another controller's to
// say.
func (g *Gateway) Statuses(beside Beside) map[kinds.Key]*Status {
	if !g.stated {
		return nil
	}
	out := map[kinds.Key]*Status{}
	accepted := 0
	for _, set := range g.Sets {
		s := g.statusOf(set, beside)
		if s.Conditions[0].Status == "True" {
			accepted++
		}
		out[set.Key()] = s
	}
	for _, set := range g.Refused {
		why := fmt.Sprintf("%s takes no listeners from this namespace", g.Resource.Key())
		out[set.Key()] = &Status{Conditions: []Condition{fails(condAccepted, reasonNotAllowed, why), fails(condProgrammed, reasonNotAllowed, why)}}
	}
	own := g.statusOf(g.Resource, beside)
	own.AttachedListenerSets = &accepted
	own.Conditions = append(own.Conditions, g.further(own.Listeners, beside.Known)...)
	for _, a := range g.Addresses {
		own.Addresses = append(own.Addresses, Address{typeIP, a})
	}
	out[g.Resource.Key()] = own
	return out
}

// statusOf is what the listeners of a Gateway or a ListenerSet come to. The API has a ListenerSet count
// a listener as invalid that names what it may not have; a Gateway does not.
func (g *Gateway) statusOf(r *kinds.Resource, beside Beside) *Status {
	s := &Status{}
	invalid := 0
	for _, l := range g.Listeners {
		if l.Of != r {
			continue
		}
		one := g.listenerStatus(l, beside)
		if one.Conditions[0].Status != "True" || r.Kind == KindListenerSet && !l.Served() {
			invalid++
		}
		s.Listeners = append(s.Listeners, one)
	}
	const none, some = "none of its listeners can be served", "some of its listeners cannot be served"
	switch {
	case g.refusal != fault{} && r == g.Resource:
		s.Conditions = []Condition{faults{g.refusal}.condition(condAccepted), fails(condProgrammed, reasonInvalid, g.refusal.message)}
		return s
	case g.refusal != fault{}:
		why := fmt.Sprintf("nobody serves %s: %s", g.Resource.Key(), g.refusal.message)
		s.Conditions = []Condition{fails(condAccepted, reasonNoGateway, why), fails(condProgrammed, reasonNoGateway, why)}
		return s
	case invalid == 0:
		s.Conditions = []Condition{holds(condAccepted)}
	case invalid < len(s.Listeners):
		s.Conditions = []Condition{depending("True", condAccepted, reasonNotValid, some)}
	default:
		s.Conditions = []Condition{fails(condAccepted, reasonNotValid, none), fails(condProgrammed, notProgrammed(r), none)}
	}
	if r == g.Resource && invalid < len(s.Listeners) && !slices.ContainsFunc(g.Listeners, (*Listener).Served) {
		s.Conditions = append(s.Conditions, fails(condProgrammed, reasonInvalid, "none of its listeners is served, because of what they name"))
	}
	return s
}

// notProgrammed is the reason of what has no valid listener.
func notProgrammed(r *kinds.Resource) string {
	if r.Kind == KindListenerSet {
		return reasonNotValid
	}
	return reasonInvalid
}

// further are the conditions that a Gateway alone has.
func (g *Gateway) further(listeners []ListenerStatus, known func(Secret) bool) []Condition {
	resolved := holds(condResolved)
	for _, l := range listeners {
		if l.Conditions[1].Status == "False" {
			resolved = fails(condResolved, "ListenersNotResolved", fmt.Sprintf("the listener %q names what it cannot have", l.Name))
		}
	}
	if wrong := g.lacks(known); wrong != (fault{}) {
		resolved = faults{wrong}.condition(condResolved)
	}
	out := []Condition{resolved}
	if g.letsStrangersIn() {
		out = append(out, depending("True", "InsecureFrontendValidationMode", "ConfigurationChanged", "clients are let in whose certificate is not valid, or who have none"))
	}
	return out
}

// letsStrangersIn reports whether clients are asked for a certificate and need none.
func (g *Gateway) letsStrangersIn() bool {
	frontend := g.spec.TLS.Frontend
	if frontend == nil {
		return false
	}
	lets := frontend.Default.letsStrangersIn()
	for _, at := range frontend.PerPort {
		lets = lets || at.TLS.letsStrangersIn()
	}
	return lets
}

func (c clientSpec) letsStrangersIn() bool {
	return c.Validation != nil && c.Validation.Mode == insecureFallback
}

// listenerStatus is how a listener stands. Accepted is its first condition, and ResolvedRefs the
// second. One that is served is programmed as soon as machines have it, which others say.
func (g *Gateway) listenerStatus(l *Listener, beside Beside) ListenerStatus {
	s := ListenerStatus{Name: l.section, SupportedKinds: []RouteKind{}, AttachedRoutes: beside.Attached(At{l.Of.Key(), l.section})}
	for _, kind := range l.kinds {
		s.SupportedKinds = append(s.SupportedKinds, RouteKind{group, kind})
	}
	unresolved, usable := l.resolve(beside.Known)
	missing, none := l.untrusted(beside.Trusts)
	unresolved = append(slices.Clip(unresolved), missing...)
	accepted, conflicted := l.wrong.condition(condAccepted), Condition{condConflicted, "False", "NoConflicts", ""}
	if none != (fault{}) {
		accepted = faults{none}.condition(condAccepted)
	}
	if l.conflict != (fault{}) {
		accepted = faults{l.conflict}.condition(condAccepted)
		conflicted = depending("True", condConflicted, l.conflict.reason, l.conflict.message)
	}
	s.Conditions = []Condition{accepted, unresolved.condition(condResolved), conflicted}
	switch {
	case l.conflict != (fault{}):
		s.Conditions = append(s.Conditions, faults{l.conflict}.condition(condProgrammed))
	case !l.Served() || !usable || none != (fault{}):
		s.Conditions = append(s.Conditions, fails(condProgrammed, reasonInvalid, "the listener is not served"))
	}
	if other := g.overlapping(l); other != nil {
		s.Conditions = append(s.Conditions, depending("True", "OverlappingTLSConfig", "OverlappingHostnames", fmt.Sprintf(
			"the listener %q of %s has the same port, and is for some of the same hostnames: clients may send over one connection what is for the other", other.section, other.Of.Key())))
	}
	return s
}

// resolve returns what the listener names in vain, secrets that are not there among it, and whether
// it has a certificate if it needs one.
func (l *Listener) resolve(known func(Secret) bool) (unresolved faults, usable bool) {
	unresolved, usable = l.unresolved, len(l.certificates) == 0
	for _, s := range l.certificates {
		if known(s) {
			usable = true
			continue
		}
		unresolved = append(slices.Clip(unresolved), fault{"InvalidCertificateRef", fmt.Sprintf("there is no secret %s/%s that can be used", s.Namespace, s.Name)})
	}
	return unresolved, usable
}

// certificates are the secrets that it, or its listeners, name as certificates.
func (g *Gateway) certificates() (out []Secret) {
	if g.shown.certificate != (Secret{}) {
		out = append(out, g.shown.certificate)
	}
	for _, l := range g.Listeners {
		out = append(out, l.certificates...)
	}
	return out
}

// Secrets are those that its status depends on.
func (g *Gateway) Secrets() []Secret {
	out := g.certificates()
	for _, l := range g.Listeners {
		out = append(out, l.clientSecrets()...)
	}
	return out
}

// Lent are the secrets of other namespaces than its own that it needs; none for no Gateway.
func (g *Gateway) Lent() []Secret {
	if g == nil {
		return nil
	}
	out := g.certificates()
	for _, l := range g.Listeners {
		out = append(out, l.lentAuthorities()...)
	}
	return slices.DeleteFunc(out, func(s Secret) bool { return s.Namespace == g.Resource.Namespace })
}

// overlapping is another listener at which TLS ends on the same port for some of the same hostnames;
// nil if there is none.
func (g *Gateway) overlapping(l *Listener) *Listener {
	if !l.ends || !l.Served() {
		return nil
	}
	for _, other := range g.Listeners {
		if other != l && other.ends && other.Served() && other.port == l.port && hostname.Common(other.host(), l.host()) != "" {
			return other
		}
	}
	return nil
}

// host is the hostname of the listener; any if it has none.
func (l *Listener) host() string {
	if l.hostname == "" {
		return "*"
	}
	return l.hostname
}
