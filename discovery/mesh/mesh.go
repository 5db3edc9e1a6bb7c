// Package mesh is the meaning of a configuration before any Envoy message exists: which services there are and what
// serves them, which routing rules and traffic policies apply to a host, who may see what, and which proxies ask.
//
// The rules are Istio's: its kinds, its defaults, its order of precedence. A Mesh is built from one snapshot and never
// changes; translation reads it without locks.
package mesh

import (
	"fmt"
	"maps"
	"sync"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// Mesh is everything that proxies can be told at one revision.
type Mesh struct {
	// Revision is the snapshot's.
	Revision int64
	// Config is the mesh-wide configuration with every default filled in.
	Config *meshconfig.MeshConfig

	from     *configstore.Snapshot
	services serviceIndex
	networks networkIndex
	virtual  virtualServiceIndex
	rules    destinationRuleIndex
	peers    peerAuthenticationIndex
	sidecars sidecarIndex
	catalog  catalog
	secrets  secretIndex
	gateways gatewayIndex
	filters  envoyFilterIndex
	defaults proxyDefaults

	selected     labelKeys // those that tell sidecars apart
	routerLabels labelKeys // those that tell routers apart

	frontendsMu sync.Mutex
	frontends   map[string]*frontendOnce

	scopesMu sync.Mutex
	scopes   map[scopeKey]*scopeOnce
	// scopesBefore are those of the mesh that this one follows; scopesStay tells that they are also those of this one.
	scopesBefore map[scopeKey]*scopeOnce
	scopesStay   bool
}

// Build derives the mesh of a snapshot. What the snapshot shares with that of prev is taken from prev, which may be nil.
func Build(snapshot *configstore.Snapshot, prev *Mesh) *Mesh {
	m := &Mesh{Revision: snapshot.Revision, from: snapshot, scopes: map[scopeKey]*scopeOnce{}, frontends: map[string]*frontendOnce{}}
	if prev == nil {
		prev = &Mesh{}
	}
	m.Config = buildConfig(snapshot, prev)
	sameConfig := m.Config == prev.Config
	m.services = buildServices(snapshot, prev, m.Config, sameConfig)
	m.networks = prev.networks
	if prev.from == nil || !sameConfig || !prev.unchanged(snapshot, kindServiceEntry, kindWorkloadEntry, kindMeshNetworks) {
		m.networks = buildNetworks(snapshot, m.services.all)
	}
	m.virtual = buildVirtualServices(snapshot, prev, m.Config, sameConfig)
	m.rules = buildDestinationRules(snapshot, prev, m.Config, sameConfig)
	m.peers = buildPeerAuthentications(snapshot, prev, m.Config.GetRootNamespace())
	m.gateways = buildGateways(snapshot, prev)
	m.sidecars = buildSidecars(snapshot, prev, m.Config.GetRootNamespace(), sameConfig)
	m.secrets = buildSecrets(snapshot, prev)
	m.prepareScopes(prev, sameConfig)
	m.selected = m.virtual.sourceLabels.union(m.rules.selectorLabels).union(m.peers.selectorLabels).
		union(m.sidecars.selectorLabels)
	m.routerLabels = m.virtual.gatewayLabels.union(m.rules.selectorLabels).union(m.peers.selectorLabels).
		union(m.gateways.selectors)
	m.defaults = buildProxyDefaults(snapshot, prev)
	m.filters = buildEnvoyFilters(snapshot, prev, m.Config.GetRootNamespace())
	return m
}

// prepareScopes is done when everything is read that scopes are made of.
func (m *Mesh) prepareScopes(prev *Mesh, sameConfig bool) {
	sameServices := sameConfig && prev.unchanged(m.from, kindServiceEntry, kindWorkloadEntry)
	sameVirtual := sameConfig && prev.unchanged(m.from, kindVirtualService)
	m.catalog = buildCatalog(m, prev, sameServices, sameVirtual)
	m.scopesBefore = prev.madeScopes()
	m.scopesStay = sameServices && sameVirtual && prev.unchanged(m.from, kindDestinationRule, kindSidecar)
}

// madeScopes are those that proxies have asked for.
func (m *Mesh) madeScopes() map[scopeKey]*scopeOnce {
	m.scopesMu.Lock()
	defer m.scopesMu.Unlock()
	return maps.Clone(m.scopes)
}

// unchanged reports whether m was built from the same resources of these kinds.
func (m *Mesh) unchanged(snapshot *configstore.Snapshot, of ...*kinds.Kind) bool {
	if m.from == nil {
		return false
	}
	for _, kind := range of {
		if !snapshot.Same(m.from, kind) {
			return false
		}
	}
	return true
}

// The kinds that this package reads.
var (
	kindServiceEntry       = mustLookup("networking.istio.io", "ServiceEntry")
	kindWorkloadEntry      = mustLookup("networking.istio.io", "WorkloadEntry")
	kindVirtualService     = mustLookup("networking.istio.io", "VirtualService")
	kindDestinationRule    = mustLookup("networking.istio.io", "DestinationRule")
	kindPeerAuthentication = mustLookup("security.istio.io", "PeerAuthentication")
	kindSidecar            = mustLookup("networking.istio.io", "Sidecar")
	kindGateway            = mustLookup("networking.istio.io", "Gateway")
	kindEnvoyFilter        = mustLookup("networking.istio.io", "EnvoyFilter")
	kindProxyConfig        = mustLookup("networking.istio.io", "ProxyConfig")
	kindMeshConfig         = mustLookup("core", "MeshConfig")
	kindMeshNetworks       = mustLookup("core", "MeshNetworks")
)

// specOf returns a resource's spec as the message of its kind, which the kind promises.
func specOf[M proto.Message](r *kinds.Resource) M {
	spec, ok := r.Spec.Message().(M)
	if !ok {
		panic(fmt.Sprintf("mesh: %s holds a %T", r.Key(), r.Spec.Message()))
	}
	return spec
}

// mustLookup panics on a kind that the registry lacks: the names above are the program's own.
func mustLookup(group, name string) *kinds.Kind {
	kind, ok := kinds.Lookup(group, name)
	if !ok {
		panic("mesh: the registry of kinds has no " + group + "/" + name)
	}
	return kind
}
