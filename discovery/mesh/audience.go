package mesh

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// A resource concerns a proxy if it is among what translation for that proxy reads:
//
//   - MeshConfig and MeshNetworks: everyone, if it is the one that counts; and so do the services
//     behind the gateways of networks, also those that a label makes one.
//   - ServiceEntry: who sees a service of it, or of another one for the same host in its namespace;
//     and whose workload serves one.
//   - InferencePool: who has a route to it, and whose workload it selects.
//   - WorkloadEntry: whom a service concerns that has it as an endpoint.
//   - DestinationRule: who sees a service that it is for. One with a workload selector: who obeys it.
//   - BackendTLSPolicy, XBackendTrafficPolicy: who sees a service that it holds for.
//   - VirtualService: sidecars that see it, routers that serve a Gateway that it is bound to. A
//     delegate: whom a VirtualService concerns that has its routes.
//   - HTTPRoute, GRPCRoute, TCPRoute, TLSRoute, UDPRoute: as a VirtualService, by what it is attached to.
//   - Sidecar: who obeys it.
//   - Gateway, also that of the Gateway API, with its ListenerSets: the routers that serve it.
//   - PeerAuthentication: whom it is for, and who sees a service of its namespace, because clients
//     have to know what the workloads there accept.
//   - AuthorizationPolicy, RequestAuthentication, EnvoyFilter, ProxyConfig, Telemetry, WasmPlugin,
//     TrafficExtension: whom it is for. A Telemetry of no effect, because an older one is for the
//     same namespace, is for nobody. An EnvoyFilter is for nobody as long as it has no patch for
//     that proxy which can be read.
//   - Secret: the routers that may have it, and who pulls a module with it.
//   - All other kinds: nobody. A WorkloadGroup is read as machines register, and no proxy is told.

// kindsOfChoice are the kinds whose resources are for proxies by namespace, label or account, and
// not by what those see.
var kindsOfChoice = []*kinds.Kind{
	kindAuthorizationPolicy, kindRequestAuthentication, kindPeerAuthentication, kindEnvoyFilter, kindProxyConfig, kindTelemetry, kinds.Secret,
	kindWasmPlugin, kindTrafficExtension,
}

// choosers stand for the resources of these kinds. Only the address counts: two meshes have the
// same one if none of them changed in between.
type choosers struct{ _ byte }

func buildChoosers(now configstore.Step, prev *Mesh, sameConfig bool) *choosers {
	if prev.choosers != nil && sameConfig && prev.unchanged(now, kindsOfChoice...) {
		return prev.choosers
	}
	return new(choosers)
}

// ChoosesLike reports whether the resources of these kinds are the same as in another mesh.
func (m *Mesh) ChoosesLike(other *Mesh) bool { return m.choosers == other.choosers }

// Concerning lists the resources that concern a proxy, each once.
func (m *Mesh) Concerning(p *Proxy) []kinds.Key {
	all, count := map[kinds.Key]bool{}, NewScopeCount()
	count.Follow(m, m.Scope(m.Known(p)), nil, NewDifferences(), func(key kinds.Key, _ int) { all[key] = true })
	choice := m.ChoiceFor(p, count)
	for _, key := range slices.Concat(m.ConcerningAll(), choice.By, choice.Serves) {
		all[key] = true
	}
	if p.Type == Router {
		for _, key := range m.Frontend(p).MadeFrom() {
			all[key] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), CompareKeys)
}

// CompareKeys sorts keys by kind, namespace and name.
func CompareKeys(a, b kinds.Key) int {
	return cmp.Or(cmp.Compare(a.Kind.Name, b.Kind.Name), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind.Group, b.Kind.Group))
}

// ConcerningAll lists the resources that concern every proxy.
func (m *Mesh) ConcerningAll() (out []kinds.Key) {
	if r := ofMesh(m.from, kindMeshConfig); r != nil {
		out = append(out, r.Key())
	}
	if in := m.peers.byNamespace[m.peers.root]; in != nil && in.general.from != nil {
		out = append(out, in.general.from.Key())
	}
	for _, s := range m.services.crossings {
		out = append(out, s.MadeFrom()...)
	}
	r := ofMesh(m.from, kindMeshNetworks)
	if r == nil {
		return out
	}
	out = append(out, r.Key())
	for _, network := range networksOf(m.from) {
		for _, g := range network.GetGateways() {
			if service := m.services.gateway(g.GetRegistryServiceName()); service != nil {
				out = append(out, service.MadeFrom()...)
			}
		}
	}
	return out
}

// Choice is what concerns a proxy beside what it sees.
type Choice struct {
	// By are the resources that choose it.
	By []kinds.Key
	// Hidden are the hosts that its workload serves and that it does not see itself, and Serves are
	// the resources that these are made from.
	Hidden []string
	Serves []kinds.Key
}

// ChoiceFor returns what concerns a proxy beside what it sees. The frontend of a router is not in
// it.
func (m *Mesh) ChoiceFor(p *Proxy, count *ScopeCount) (out Choice) {
	known := m.Known(p)
	for _, d := range m.proxyDefaults(p) {
		out.By = append(out.By, d.from.Key())
	}
	for _, a := range m.AuthorizationPolicies(p) {
		out.By = append(out.By, a.Resource.Key())
	}
	for _, t := range m.tokenPolicies(p) {
		out.By = append(out.By, t.resource.Key())
	}
	for _, r := range m.telemetriesOf(p) {
		out.By = append(out.By, r.Key())
	}
	for _, patch := range m.Patches(p) {
		out.By = append(out.By, patch.From.Key())
	}
	out.By = append(out.By, m.Extending(known)...)
	if p.Type == Router {
		for _, s := range m.SecretsFor(p) {
			out.By = append(out.By, s.key())
		}
	}
	out.By = append(out.By, m.peerAuthenticationsOf(known)...)
	for host := range count.chosen {
		if rule := count.scope.DestinationRule(known, host); rule != nil && rule.forWorkloads() {
			out.By = append(out.By, rule.From...)
		}
	}
	out.By = slices.Compact(slices.SortedFunc(slices.Values(out.By), CompareKeys))
	for _, t := range m.Targets(p) {
		if !count.shows(t) && !slices.Contains(out.Hidden, t.Service.Hostname) {
			out.Hidden, out.Serves = append(out.Hidden, t.Service.Hostname), append(out.Serves, t.Service.MadeFrom()...)
		}
	}
	slices.Sort(out.Hidden)
	return out
}

// peerAuthenticationsOf lists those that say what the workload of a proxy accepts, without that of
// the root namespace.
func (m *Mesh) peerAuthenticationsOf(p *Proxy) (out []kinds.Key) {
	in := m.peers.byNamespace[p.Namespace]
	if in == nil || p.Namespace == m.peers.root {
		return nil
	}
	for _, a := range []peerAuthentication{in.general, in.selecting(p.Labels)} {
		if a.from != nil {
			out = append(out, a.from.Key())
		}
	}
	return out
}

// keys lists the PeerAuthentications that count.
func (in *peerAuthentications) keys() (out []kinds.Key) {
	if in == nil {
		return nil
	}
	if in.general.from != nil {
		out = append(out, in.general.from.Key())
	}
	for _, a := range in.selected {
		out = append(out, a.from.Key())
	}
	return out
}
