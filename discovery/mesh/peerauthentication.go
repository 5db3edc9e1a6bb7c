package mesh

import (
	"maps"
	"slices"

	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// MutualTLS says which connections a workload accepts.
type MutualTLS int

// The modes of mutual TLS.
const (
	PlaintextOnly   MutualTLS = iota // TLS is left to the application
	MutualTLSOrNone                  // both; what a client sends tells them apart
	MutualTLSOnly
)

var mutualTLSModes = map[security.PeerAuthentication_MutualTLS_Mode]MutualTLS{
	security.PeerAuthentication_MutualTLS_DISABLE:    PlaintextOnly,
	security.PeerAuthentication_MutualTLS_PERMISSIVE: MutualTLSOrNone,
	security.PeerAuthentication_MutualTLS_STRICT:     MutualTLSOnly,
}

// peerAuthenticationIndex holds the PeerAuthentications by namespace, the oldest first.
type peerAuthenticationIndex struct {
	root        string
	byNamespace map[string]*peerAuthentications

	selectorLabels labelKeys
}

// peerAuthentications are those of a namespace. Of several for all its workloads the oldest counts.
type peerAuthentications struct {
	general  peerAuthentication
	selected []peerAuthentication
}

// peerAuthentication is one of them; the zero value says nothing.
type peerAuthentication struct {
	*security.PeerAuthentication

	from *kinds.Resource
}

// buildPeerAuthentications returns the index of prev if no PeerAuthentication changed. Surroundings
// rely on that.
func buildPeerAuthentications(now configstore.Step, prev *Mesh, root string) *peerAuthenticationIndex {
	if prev.peers != nil && prev.peers.root == root && prev.unchanged(now, kindPeerAuthentication) {
		return prev.peers
	}
	index := &peerAuthenticationIndex{root: root, byNamespace: map[string]*peerAuthentications{}, selectorLabels: labelKeys{}}
	for r := range now.Of(kindPeerAuthentication) {
		index.add(r)
	}
	return index
}

func (x *peerAuthenticationIndex) add(r *kinds.Resource) {
	spec := specOf[*security.PeerAuthentication](r)
	in := x.byNamespace[r.Namespace]
	if in == nil {
		in = &peerAuthentications{}
		x.byNamespace[r.Namespace] = in
	}
	selector := spec.GetSelector().GetMatchLabels()
	switch {
	case len(selector) > 0:
		in.selected = append(in.selected, peerAuthentication{spec, r})
		x.selectorLabels.add(selector)
	case in.general.from == nil:
		in.general = peerAuthentication{spec, r}
	}
}

// NamespaceMutualTLS is what workloads of a namespace accept by default: what the namespace says,
// else what the root namespace says, else both.
func (m *Mesh) NamespaceMutualTLS(namespace string) MutualTLS {
	mode := MutualTLSOrNone
	for _, from := range []string{m.peers.root, namespace} {
		if in := m.peers.byNamespace[from]; in != nil {
			mode = modeOr(in.general.GetMtls(), mode)
		}
	}
	return mode
}

// WorkloadMutualTLS is what a workload accepts on a port: what the oldest PeerAuthentication for
// its labels says of the port, or of all ports, else what its namespace says. Those of the root
// namespace select no workloads.
func (m *Mesh) WorkloadMutualTLS(namespace string, labels map[string]string, port uint32) MutualTLS {
	mode := m.NamespaceMutualTLS(namespace)
	in := m.peers.byNamespace[namespace]
	if in == nil || namespace == m.peers.root {
		return mode
	}
	chosen := in.selecting(labels)
	return modeOr(chosen.GetPortLevelMtls()[port], modeOr(chosen.GetMtls(), mode))
}

// MutualTLSFrom names the PeerAuthentications that decide what a workload accepts: the one for all ports that have no mode of
// their own, and the one for those of MutualTLSPorts. Where none decides, the name is nil.
func (m *Mesh) MutualTLSFrom(namespace string, labels map[string]string) (general, ports *kinds.Key) {
	decide := func(by peerAuthentication) {
		if _, set := mutualTLSModes[by.GetMtls().GetMode()]; set {
			key := by.from.Key()
			general = &key
		}
	}
	for _, from := range []string{m.peers.root, namespace} {
		if in := m.peers.byNamespace[from]; in != nil {
			decide(in.general)
		}
	}
	in := m.peers.byNamespace[namespace]
	if in == nil || namespace == m.peers.root {
		return general, nil
	}
	chosen := in.selecting(labels)
	decide(chosen)
	if len(chosen.GetPortLevelMtls()) > 0 {
		key := chosen.from.Key()
		ports = &key
	}
	return general, ports
}

// selecting returns the oldest that selects a workload by its labels.
func (in *peerAuthentications) selecting(labels map[string]string) peerAuthentication {
	for _, p := range in.selected {
		if kinds.LabelsWithin(p.GetSelector().GetMatchLabels(), labels) {
			return p
		}
	}
	return peerAuthentication{}
}

// modeOr is the mode that is set, or the inherited one.
func modeOr(set *security.PeerAuthentication_MutualTLS, inherited MutualTLS) MutualTLS {
	if mode, known := mutualTLSModes[set.GetMode()]; known {
		return mode
	}
	return inherited
}

// MutualTLSPorts are the ports that the PeerAuthentication for a workload has a mode for, sorted.
func (m *Mesh) MutualTLSPorts(namespace string, labels map[string]string) []uint32 {
	in := m.peers.byNamespace[namespace]
	if in == nil || namespace == m.peers.root {
		return nil
	}
	return slices.Sorted(maps.Keys(in.selecting(labels).GetPortLevelMtls()))
}
