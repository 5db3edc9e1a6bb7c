package mesh

import (
	"cmp"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// Problem is something wrong between resources that are each valid alone. The rest of them stays in
// force.
type Problem struct {
	Of kinds.Key
	// Path is that of the field, as in spec.http[0].delegate.
	Path string
	// Reason says what is wrong and what it means.
	Reason string
}

// sorted sorts problems by resource, field and reason.
func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(a.Of.Compare(b.Of), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason))
	})
	return problems
}

// Problems lists what was found as the mesh was built, the oldest resource first. EnvoyFilters have
// their own list.
func (m *Mesh) Problems() []Problem {
	var out []Problem
	for _, vs := range m.virtual.faulty {
		out = append(out, vs.problems...)
	}
	out = append(out, m.api.problems()...)
	out = append(out, besideOfMesh(m.from, kindMeshConfig)...)
	out = append(out, besideOfMesh(m.from, kindMeshNetworks)...)
	out = append(out, m.networkProblems()...)
	out = append(out, rivals(m.from, kindSidecar, sidecarSelector)...)
	out = append(out, rivals(m.from, kindPeerAuthentication, peerSelector)...)
	out = append(out, m.secretProblems()...)
	out = append(out, m.forNobody()...)
	out = append(out, m.authorizationProblems()...)
	out = append(out, m.providers.problems(m)...)
	out = append(out, m.telemetryProblems()...)
	out = append(out, m.entryProblems()...)
	out = append(out, m.claimProblems()...)
	out = append(out, m.extensionProblems()...)
	return append(out, m.protocolRivals()...)
}
