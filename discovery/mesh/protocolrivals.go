package mesh

import (
	"fmt"
	"maps"
	"slices"
)

// protocolRivals lists services that declare a port of a workload with another protocol than an
// older service does. The older one's holds for incoming connections.
func (m *Mesh) protocolRivals() []Problem {
	seen := map[Problem]bool{}
	for _, problems := range m.services.rivals.each() {
		for _, p := range problems {
			seen[p] = true
		}
	}
	return sorted(slices.Collect(maps.Keys(seen)))
}

// rivalsAt returns the problems of what is served at one address.
func rivalsAt(targets []Target) (problems []Problem) {
	for _, t := range targets {
		first := firstAt(targets, t)
		if first.Port.Protocol == t.Port.Protocol || first.Service.Hostname == t.Service.Hostname {
			continue
		}
		problems = append(problems, Problem{Of: t.Service.Entry.Key(), Path: "spec.ports", Reason: fmt.Sprintf(
			"port %d of %s is %s at workloads where the older %s declares the port that they listen on, %d, as %s: there it is taken for that. "+
				"Declare both alike, or have the workloads listen on two ports",
			t.Port.Number, t.Service.Hostname, t.Port.Protocol.name(), first.Service.Entry.Key(), t.Number, first.Port.Protocol.name())})
	}
	return problems
}

// firstAt returns the target that decides about a port of a workload: that of the oldest service in
// its namespace and network.
func firstAt(targets []Target, other Target) Target {
	i := slices.IndexFunc(targets, func(t Target) bool {
		return t.Number == other.Number && t.TakesDatagrams() == other.TakesDatagrams() && t.Service.Namespace == other.Service.Namespace && t.endpoint.Network == other.endpoint.Network
	})
	return targets[i]
}

// name is how people write the protocol.
func (p Protocol) name() string {
	if p.IsSniffed() {
		return "of no declared protocol"
	}
	return string(p)
}
