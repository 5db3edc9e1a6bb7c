// Package mesh is the meaning of a configuration before any Envoy message exists: which services
// there are and what serves them, which routing rules and traffic policies apply to a host, who may
// see what, and which proxies ask.
//
// The rules are Istio's: its kinds, its defaults, its order of precedence. A Mesh is built from one
// snapshot and never changes; translation reads it without locks.
package mesh

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// Mesh is everything that proxies can be told at one revision.
type Mesh struct {
	// Revision is that of the snapshot.
	Revision int64
	// Config is the mesh-wide configuration with every default filled in.
	Config *meshconfig.MeshConfig

	from *configstore.Snapshot // the snapshot that it was built from
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

	extensions *extensionIndex

	authorizers *Authorizers
	telemetries *telemetryIndex
	// secretServer is asked for credentials whose names begin with sds://.
	secretServer SecretServer
	trust        *Trust           // nil before anyone has set it
	resolved     GatewayAddresses // what the names of gateways resolve to
	ownGateways  bool             // routers serve only the Gateways of their own namespace, whatever trust says

	choosers     *choosers  // stand for what is for proxies by namespace, label or account
	selected     labelNames // names of the labels that tell sidecars apart
	routerLabels labelNames // names of the labels that tell routers apart

	memory     *memory                // shared with the meshes before
	build      int                    // its number among the meshes that share memory
	scopes     once[scopeKey, *Scope] // those that this mesh was asked for
	frontends  once[string, *Frontend]
	tokenRules once[string, *TokenRules]
	bound      once[boundTo, []*VirtualService]
	recent     []*step             // the latest steps, the last one to this mesh
	changes    once[int, *changes] // by the build of an earlier mesh
}

// Size is how many resources the mesh is made of.
func (m *Mesh) Size() int { return m.from.Size() }

// given are the inputs of a mesh beside its configuration.
type given struct {
	keys      FetchedKeys
	trust     *Trust
	addresses GatewayAddresses
}

// Build returns the mesh that a step leads to. It takes over from prev, which may be nil, what the
// step does not change, and also the fetched keys and the trust. If the step does not begin where
// prev was, the mesh is built from nothing.
func Build(now configstore.Step, prev *Mesh) *Mesh {
	if prev == nil {
		prev = First(false)
	}
	beside := given{trust: prev.trust, addresses: prev.resolved}
	if prev.tokens != nil {
		beside.keys = prev.tokens.keys
	}
	if !now.Follows(prev.from) {
		now, prev = now.FromNothing(), First(prev.ownGateways)
	}
	return build(now, prev, beside)
}

// First returns the mesh to begin a series with if routers are to serve only the Gateways of their
// own namespace; others could open ports on them.
func First(ownGateways bool) *Mesh { return &Mesh{memory: newMemory(), ownGateways: ownGateways} }

// build builds every index of a mesh from the one in prev. The order matters: services come first,
// because networks, authorizers, providers, routes and the secret server look hosts up in them.
func build(now configstore.Step, prev *Mesh, beside given) *Mesh {
	m := &Mesh{Revision: now.Revision, from: now.Snapshot, trust: beside.trust, resolved: beside.addresses, ownGateways: prev.ownGateways}
	m.memory, m.build = prev.memory, prev.memory.next()
	m.Config = buildConfig(now, prev)
	sameConfig := m.Config == prev.Config
	led := &step{follows: prev.build, config: !sameConfig, sorting: now.Touches(kindSidecar, kindEnvoyFilter, kindProxyConfig)}
	m.config = m.Config
	m.services, led.services = buildServices(now, prev, m)
	m.providers = buildProviders(prev, m.Config, m.services)
	m.secrets = buildSecrets(now, prev)
	api, changed := buildGatewayAPI(now, prev, m, led.services)
	m.api = api
	m.virtual, led.virtual = buildVirtualServices(now, prev, m, changed.rules)
	m.rules, led.rules = buildDestinationRules(now, prev, m)
	led.rules = append(led.rules, changed.rehosted...)
	m.recent = led.after(prev.recent)
	m.networks = buildNetworks(now, prev, m, sameConfig)
	m.peers = buildPeerAuthentications(now, prev, m.Config.GetRootNamespace())
	m.policies = buildAuthorization(now, prev, m.Config.GetRootNamespace())
	m.authorizers = buildAuthorizers(prev, m.Config, m.services)
	m.telemetries = buildTelemetries(now, prev, m)
	m.secretServer = buildSecretServer(m.Config, m.services)
	m.tokens = buildTokens(now, prev, m.Config.GetRootNamespace(), beside.keys)
	m.gateways = buildGateways(now, prev, m.api)
	m.sidecars = buildSidecars(now, prev, m.Config.GetRootNamespace(), sameConfig)
	m.defaults = buildProxyDefaults(now, prev)
	m.filters = buildEnvoyFilters(now, prev, m.Config.GetRootNamespace())
	m.extensions = buildExtensions(now, prev, m.Config.GetRootNamespace())
	m.choosers = buildChoosers(now, prev, sameConfig)
	m.tellApart()
	return m
}

// tellApart finds the labels that rules choose proxies by.
func (m *Mesh) tellApart() {
	preferred := labelKeys{}
	preferred.addPreferred(m.Config.GetLocalityLbSetting().GetFailoverPriority())
	preferred.addPreferred(m.Config.GetZoneAwareLbSetting().GetFailoverPriority())
	m.selected = namesIn([]labelKeys{preferred, m.peers.selectorLabels, m.sidecars.selectorLabels}, m.virtual.sourceLabels, m.rules.selectorLabels)
	m.routerLabels = namesIn([]labelKeys{preferred, m.peers.selectorLabels, m.gateways.selectors}, m.virtual.gatewayLabels, m.rules.selectorLabels)
}

// unchanged reports whether a step from m leaves the resources of these kinds as they are.
func (m *Mesh) unchanged(now configstore.Step, of ...*kinds.Kind) bool {
	return m.from != nil && !now.Touches(of...)
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
	kindTelemetry             = mustLookup("telemetry.istio.io", "Telemetry")
	kindWasmPlugin            = mustLookup("extensions.istio.io", "WasmPlugin")
	kindTrafficExtension      = mustLookup("extensions.istio.io", "TrafficExtension")
	kindMeshConfig            = mustLookup("core", "MeshConfig")
	kindMeshNetworks          = mustLookup("core", "MeshNetworks")
)

// specOf returns a resource's spec as the message of its kind.
func specOf[M proto.Message](r *kinds.Resource) M {
	spec, ok := r.Spec.Message().(M)
	if !ok {
		panic(fmt.Sprintf("mesh: %s holds a %T", r.Key(), r.Spec.Message()))
	}
	return spec
}

// mustLookup panics if the registry lacks a kind: the names above are the program's own.
func mustLookup(group, name string) *kinds.Kind {
	kind, ok := kinds.Lookup(group, name)
	if !ok {
		panic("mesh: the registry of kinds has no " + group + "/" + name)
	}
	return kind
}
