// Package mesh is the meaning of a configuration before any Envoy message exists: which services there are and what
// serves them, which routing rules and traffic policies apply to a host, who may see what, and which proxies ask.
//
// The rules are Istio's: its kinds, its defaults, its order of precedence. A Mesh is built from one snapshot and never
// changes; translation reads it without locks.
package mesh

import (
	"fmt"
	"strings"

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

	from *configstore.Snapshot
	catalog
	networks *networkIndex
	peers    *peerAuthenticationIndex
	policies *authorizationIndex
	tokens   *tokenIndex
	sidecars sidecarIndex
	secrets  secretIndex
	gateways gatewayIndex
	filters  envoyFilterIndex
	defaults proxyDefaults

	authorizers *Authorizers
	// secretServer is asked for the credentials whose names begin with sds://.
	secretServer SecretServer
	trust        *Trust // nil where nobody has said
	ownGateways  bool   // routers serve the Gateways of their own namespace alone, whatever trust says

	selected     labelNames // those that tell sidecars apart
	routerLabels labelNames // those that tell routers apart

	memory     *memory // that of the meshes before, too
	build      int
	scopes     once[scopeKey, *Scope]
	frontends  once[string, *Frontend]
	tokenRules once[string, *TokenRules]
	changes    once[catalog, *changes] // since another catalog
}

// given is what a mesh is made of beside its configuration.
type given struct {
	keys  FetchedKeys
	trust *Trust
}

// Build derives the mesh of a snapshot. What the snapshot shares with that of prev is taken from prev, which may be nil, and so are the keys
// that were fetched, and what is trusted.
func Build(snapshot *configstore.Snapshot, prev *Mesh) *Mesh {
	if prev == nil || prev.tokens == nil {
		return build(snapshot, prev, given{})
	}
	return build(snapshot, prev, given{keys: prev.tokens.keys, trust: prev.trust})
}

// First is what the first mesh follows, and those after it, where routers serve the Gateways of their own namespace alone: others could open ports on them.
func First(ownGateways bool) *Mesh { return &Mesh{memory: newMemory(), ownGateways: ownGateways} }

func build(snapshot *configstore.Snapshot, prev *Mesh, beside given) *Mesh {
	if prev == nil {
		prev = First(false)
	}
	m := &Mesh{Revision: snapshot.Revision, from: snapshot, trust: beside.trust, ownGateways: prev.ownGateways}
	m.memory, m.build = prev.memory, prev.memory.next()
	m.Config = buildConfig(snapshot, prev)
	sameConfig := m.Config == prev.Config
	m.catalog = catalog{
		config:   m.Config,
		services: buildServices(snapshot, prev, m),
		virtual:  buildVirtualServices(snapshot, prev, m.Config),
		rules:    buildDestinationRules(snapshot, prev, m),
	}
	m.networks = buildNetworks(snapshot, prev, m.services, sameConfig)
	m.peers = buildPeerAuthentications(snapshot, prev, m.Config.GetRootNamespace())
	m.policies = buildAuthorization(snapshot, prev, m.Config.GetRootNamespace())
	m.authorizers = buildAuthorizers(prev, m.Config, m.services)
	m.secretServer = buildSecretServer(m.Config, m.services)
	m.tokens = buildTokens(snapshot, prev, m.Config.GetRootNamespace(), beside.keys)
	m.gateways = buildGateways(snapshot, prev)
	m.sidecars = buildSidecars(snapshot, prev, m.Config.GetRootNamespace(), sameConfig)
	m.secrets = buildSecrets(snapshot, prev)
	m.defaults = buildProxyDefaults(snapshot, prev)
	m.filters = buildEnvoyFilters(snapshot, prev, m.Config.GetRootNamespace())
	m.tellApart()
	return m
}

// tellApart finds the labels by which something chooses proxies.
func (m *Mesh) tellApart() {
	preferred := labelKeys{}
	preferred.addPreferred(m.Config.GetLocalityLbSetting().GetFailoverPriority())
	preferred.addPreferred(m.Config.GetZoneAwareLbSetting().GetFailoverPriority())
	m.selected = namesIn([]labelKeys{preferred, m.peers.selectorLabels, m.sidecars.selectorLabels}, m.virtual.sourceLabels, m.rules.selectorLabels)
	m.routerLabels = namesIn([]labelKeys{preferred, m.peers.selectorLabels, m.gateways.selectors}, m.virtual.gatewayLabels, m.rules.selectorLabels)
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
	kindServiceEntry          = mustLookup("networking.istio.io", "ServiceEntry")
	kindWorkloadEntry         = mustLookup("networking.istio.io", "WorkloadEntry")
	kindVirtualService        = mustLookup("networking.istio.io", "VirtualService")
	kindDestinationRule       = mustLookup("networking.istio.io", "DestinationRule")
	kindPeerAuthentication    = mustLookup("security.istio.io", "PeerAuthentication")
	kindRequestAuthentication = mustLookup("security.istio.io", "RequestAuthentication")
	kindAuthorizationPolicy   = mustLookup("security.istio.io", "AuthorizationPolicy")
	kindSidecar               = mustLookup("networking.istio.io", "Sidecar")
	kindGateway               = mustLookup("networking.istio.io", "Gateway")
	kindEnvoyFilter           = mustLookup("networking.istio.io", "EnvoyFilter")
	kindProxyConfig           = mustLookup("networking.istio.io", "ProxyConfig")
	kindMeshConfig            = mustLookup("core", "MeshConfig")
	kindMeshNetworks          = mustLookup("core", "MeshNetworks")
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

// compareResources puts the older first, as a snapshot does.
func compareResources(a, b *kinds.Resource) int {
	if c := a.CreateTime.Compare(b.CreateTime); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Namespace, b.Namespace)
}
