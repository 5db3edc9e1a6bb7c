package gatewayapi

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// Holding is a policy with what it comes to, and the hosts of each of its targets.
type Holding struct {
	*Policy
	*Effect

	Hosts [][]string
}

// Key is that of the policy.
func (s *Holding) Key() kinds.Key { return s.Resource.Key() }

// Entries are the ServiceEntries that it names.
func (s *Holding) Entries() (out []kinds.Key) {
	for _, t := range s.Targets {
		if t.Entry != (kinds.Key{}) {
			out = withOne(out, t.Entry)
		}
	}
	return out
}

// Authorities are those that it names and that can be had; none for no policy.
func (s *Holding) Authorities() []Authority {
	if s == nil || s.Trusted == nil {
		return nil
	}
	return []Authority{*s.Trusted}
}

// Held is which policies hold for a host of a namespace.
type Held struct {
	// Every holds for the TLS of every port that is not in Ports; nil if none does.
	Every *Holding
	// Ports are those that hold for the TLS of a port, by its name.
	Ports map[string]*Holding
	// Traffic holds for retries and sessions; nil if none does.
	Traffic *Holding

	faults map[heldTarget]fault
}

// heldTarget is a target of a policy.
type heldTarget struct {
	of kinds.Key
	at int
}

// From are the policies that hold.
func (h *Held) From() (out []kinds.Key) {
	for _, s := range []*Holding{h.Every, h.Traffic} {
		if s != nil {
			out = append(out, s.Resource.Key())
		}
	}
	for _, s := range h.Ports {
		out = withOne(out, s.Resource.Key())
	}
	slices.SortFunc(out, kinds.Key.Compare)
	return out
}

// Hold decides which policies hold for a host, of those of a namespace, the oldest first. The ports are
// the names of those that the host has there; nil if no service has the host.
func Hold(host string, all []*Holding, ports []string) *Held {
	h := &Held{Ports: map[string]*Holding{}, faults: map[heldTarget]fault{}}
	for _, s := range all {
		for i, t := range s.Targets {
			if !slices.Contains(s.Hosts[i], host) {
				continue
			}
			if wrong := h.hold(s, t.Section, host, ports); wrong != (fault{}) {
				h.faults[heldTarget{s.Resource.Key(), i}] = wrong
			}
		}
	}
	return h
}

// reasonNoTarget is that of a policy for what is not there.
const reasonNoTarget = "TargetNotFound"

// hold has a policy hold for a section, unless an older one does.
func (h *Held) hold(s *Holding, section, host string, ports []string) (wrong fault) {
	traffic := s.Resource.Kind == KindBackendTraffic
	holding := h.Ports[section]
	switch {
	case traffic:
		holding = h.Traffic
	case section == "":
		holding = h.Every
	}
	switch {
	case ports == nil:
		return fault{reasonNoTarget, fmt.Sprintf("there is no service %s in the namespace %s", host, s.Resource.Namespace)}
	case section != "" && !slices.Contains(ports, section):
		return fault{reasonNoTarget, fmt.Sprintf("%s has no port of the name %q", host, section)}
	case holding != nil && holding.Resource != s.Resource:
		return fault{"Conflicted", fmt.Sprintf("%s is older and for the same", holding.Resource.Key())}
	case traffic:
		h.Traffic = s
	case section == "":
		h.Every = s
	default:
		h.Ports[section] = s
	}
	return fault{}
}

// Ancestor is a Gateway whose routes lead to targets of a policy.
type Ancestor struct {
	Gateway kinds.Key
	Targets []int
}

// mostAncestors is how many the API has room for.
const mostAncestors = 16

// Status is how the policy stands at each Gateway; at its targets, if no Gateway leads to them. Held says
// which policies hold for a host of its namespace.
func (s *Holding) Status(ancestors []Ancestor, held func(host string) *Held) *Status {
	out := &Status{}
	for _, a := range ancestors[:min(len(ancestors), mostAncestors)] {
		out.Ancestors = append(out.Ancestors, s.at(referenceTo(a.Gateway), a.Targets, held))
	}
	for i := range s.Targets {
		if len(ancestors) == 0 {
			out.Ancestors = append(out.Ancestors, s.at(s.Targets[i].reference, []int{i}, held))
		}
	}
	return out
}

// referenceTo names a Gateway in full.
func referenceTo(gateway kinds.Key) ParentReference {
	in, kind, namespace := group, KindGateway.Name, gateway.Namespace
	return ParentReference{Group: &in, Kind: &kind, Namespace: &namespace, Name: gateway.Name}
}

func (s *Holding) at(of ParentReference, targets []int, held func(host string) *Held) AncestorStatus {
	var wrong faults
	for _, i := range targets {
		wrong = append(wrong, s.faultsAt(i, held)...)
	}
	if s.invalid != (fault{}) {
		wrong = append(wrong, s.invalid)
	}
	conditions := []Condition{wrong.condition(condAccepted)}
	if s.Resource.Kind == KindBackendTLS {
		conditions = append(conditions, s.unresolved.condition(condResolved))
	}
	return AncestorStatus{of, Controller, conditions}
}

// faultsAt are why the policy does not hold for a target.
func (s *Holding) faultsAt(target int, held func(host string) *Held) (out faults) {
	if len(s.Hosts[target]) == 0 {
		return faults{{reasonNoTarget, fmt.Sprintf("%s names nothing that a policy can be for: name a Service, a ServiceEntry or a Hostname of the namespace %s", s.Targets[target].path, s.Resource.Namespace)}}
	}
	for _, host := range s.Hosts[target] {
		if wrong := held(host).faults[heldTarget{s.Resource.Key(), target}]; wrong != (fault{}) {
			out = append(out, wrong)
		}
	}
	return out
}

// TargetProblems are why the policy does not hold for what it names.
func (s *Holding) TargetProblems(held func(host string) *Held) (out []Problem) {
	for i, t := range s.Targets {
		for _, wrong := range s.faultsAt(i, held) {
			out = append(out, Problem{s.Resource.Key(), t.path, wrong.message + ": the policy has no effect there"})
		}
	}
	return out
}
