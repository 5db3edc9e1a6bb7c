package gatewayapi

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// Securing is a policy with what it comes to, and the hosts of each of its targets.
type Securing struct {
	*BackendTLS
	*Secured

	Hosts [][]string
}

// Key is that of the policy.
func (s *Securing) Key() kinds.Key { return s.Resource.Key() }

// Entries are the ServiceEntries that it names.
func (s *Securing) Entries() (out []kinds.Key) {
	for _, t := range s.Targets {
		if t.Entry != (kinds.Key{}) {
			out = withOne(out, t.Entry)
		}
	}
	return out
}

// Authorities are those that it names and that can be had; none for no policy.
func (s *Securing) Authorities() []Authority {
	if s == nil || s.Trusted == nil {
		return nil
	}
	return []Authority{*s.Trusted}
}

// Held is which policies hold for a host of a namespace.
type Held struct {
	// Every holds for every port that is not in Ports; nil if none does.
	Every *Securing
	// Ports are those that hold for a port, by its name.
	Ports map[string]*Securing

	faults map[heldTarget]fault
}

// heldTarget is a target of a policy.
type heldTarget struct {
	of kinds.Key
	at int
}

// From are the policies that hold.
func (h *Held) From() (out []kinds.Key) {
	if h.Every != nil {
		out = append(out, h.Every.Resource.Key())
	}
	for _, s := range h.Ports {
		out = withOne(out, s.Resource.Key())
	}
	slices.SortFunc(out, kinds.Key.Compare)
	return out
}

// Hold decides which policies hold for a host, of those of a namespace, the oldest first. The ports are
// the names of those that the host has there; nil if no service has the host.
func Hold(host string, all []*Securing, ports []string) *Held {
	h := &Held{Ports: map[string]*Securing{}, faults: map[heldTarget]fault{}}
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
func (h *Held) hold(s *Securing, section, host string, ports []string) (wrong fault) {
	holding := h.Ports[section]
	if section == "" {
		holding = h.Every
	}
	switch {
	case ports == nil:
		return fault{reasonNoTarget, fmt.Sprintf("there is no service %s in the namespace %s", host, s.Resource.Namespace)}
	case section != "" && !slices.Contains(ports, section):
		return fault{reasonNoTarget, fmt.Sprintf("%s has no port of the name %q", host, section)}
	case holding != nil && holding.Resource != s.Resource:
		return fault{"Conflicted", fmt.Sprintf("%s is older and for the same", holding.Resource.Key())}
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
func (s *Securing) Status(ancestors []Ancestor, held func(host string) *Held) *Status {
	out := &Status{}
	for _, a := range ancestors[:min(len(ancestors), mostAncestors)] {
		gateway, in, namespace := group, KindGateway.Name, a.Gateway.Namespace
		out.Ancestors = append(out.Ancestors, s.at(ParentReference{Group: &gateway, Kind: &in, Namespace: &namespace, Name: a.Gateway.Name}, a.Targets, held))
	}
	for i := range s.Targets {
		if len(ancestors) == 0 {
			out.Ancestors = append(out.Ancestors, s.at(s.Targets[i].reference, []int{i}, held))
		}
	}
	return out
}

func (s *Securing) at(of ParentReference, targets []int, held func(host string) *Held) AncestorStatus {
	var wrong faults
	for _, i := range targets {
		wrong = append(wrong, s.faultsAt(i, held)...)
	}
	if s.invalid != (fault{}) {
		wrong = append(wrong, s.invalid)
	}
	return AncestorStatus{of, Controller, []Condition{wrong.condition(condAccepted), s.unresolved.condition(condResolved)}}
}

// faultsAt are why the policy does not hold for a target.
func (s *Securing) faultsAt(target int, held func(host string) *Held) (out faults) {
	if len(s.Hosts[target]) == 0 {
		return faults{{reasonNoTarget, fmt.Sprintf("%s names nothing that has TLS: name a Service, a ServiceEntry or a Hostname of the namespace %s", s.Targets[target].path, s.Resource.Namespace)}}
	}
	for _, host := range s.Hosts[target] {
		if wrong := held(host).faults[heldTarget{s.Resource.Key(), target}]; wrong != (fault{}) {
			out = append(out, wrong)
		}
	}
	return out
}

// TargetProblems are why the policy does not hold for what it names.
func (s *Securing) TargetProblems(held func(host string) *Held) (out []Problem) {
	for i, t := range s.Targets {
		for _, wrong := range s.faultsAt(i, held) {
			out = append(out, Problem{s.Resource.Key(), t.path, wrong.message + ": the policy has no effect there"})
		}
	}
	return out
}
