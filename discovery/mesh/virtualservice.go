package mesh

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// MeshGateway is the name by which a VirtualService addresses the sidecars.
const MeshGateway = "mesh"

// VirtualService is one with every short host name in it resolved.
type VirtualService struct {
	Resource *kinds.Resource
	Spec     *networking.VirtualService

	visibility visibility
	delegates  []*kinds.Resource // what its routes delegate to; nil for what is not there
	problems   []Problem
}

// virtualServiceIndex is every VirtualService, the oldest first.
type virtualServiceIndex struct {
	mesh      []*VirtualService            // those that address sidecars
	byGateway map[string][]*VirtualService // those that address routers, by namespace/name of the Gateway
	resolved  map[*kinds.Resource]*VirtualService

	sourceLabels  labelKeys // that sidecars must match
	gatewayLabels labelKeys // that routers must match
}

func buildVirtualServices(snapshot *configstore.Snapshot, prev *Mesh, config *meshconfig.MeshConfig, sameConfig bool) virtualServiceIndex {
	if sameConfig && prev.unchanged(snapshot, kindVirtualService) {
		return prev.virtual
	}
	index := virtualServiceIndex{
		byGateway: map[string][]*VirtualService{}, resolved: map[*kinds.Resource]*VirtualService{},
		sourceLabels: labelKeys{}, gatewayLabels: labelKeys{},
	}
	d := delegation{delegates: map[*kinds.Resource]*VirtualService{}, exportDefault: config.GetDefaultVirtualServiceExportTo()}
	for r := range snapshot.Of(kindVirtualService) {
		delegates := delegatesOf(snapshot, r)
		vs, known := prev.virtual.resolved[r]
		if !known || !sameConfig || !slices.Equal(vs.delegates, delegates) {
			vs = resolveVirtualService(r, d.exportDefault)
			vs.delegates = delegates
			d.expand(vs)
		}
		index.resolved[r] = vs
		if !isDelegate(vs.Spec) {
			index.add(vs)
		}
	}
	return index
}

func (x *virtualServiceIndex) add(vs *VirtualService) {
	if vs.bindsTo(MeshGateway) {
		x.mesh = append(x.mesh, vs)
		x.sourceLabels.addSources(vs)
	}
	gateways := slices.Compact(slices.Sorted(slices.Values(vs.Spec.GetGateways())))
	for _, gateway := range gateways {
		if gateway != MeshGateway {
			x.byGateway[gateway] = append(x.byGateway[gateway], vs)
			x.gatewayLabels.addSources(vs)
		}
	}
}

// obeyedIn picks the rules that proxies in a namespace obey: those that are private to it, those exported to it by name, the
// public ones.
func obeyedIn(namespace string, list []*VirtualService) []*VirtualService {
	var private, named, public []*VirtualService
	for _, vs := range list {
		switch {
		case !vs.visibility.includes(namespace):
		case vs.visibility.public():
			public = append(public, vs)
		case vs.Resource.Namespace == namespace:
			private = append(private, vs)
		default:
			named = append(named, vs)
		}
	}
	return append(append(private, named...), public...)
}

// bindsTo reports whether the VirtualService is for proxies with this gateway: MeshGateway, or namespace/name.
func (vs *VirtualService) bindsTo(gateway string) bool {
	if len(vs.Spec.GetGateways()) == 0 {
		return gateway == MeshGateway
	}
	return slices.Contains(vs.Spec.GetGateways(), gateway)
}

// addSources collects the labels by which the matches of a rule choose proxies.
func (k labelKeys) addSources(vs *VirtualService) {
	for _, route := range vs.Spec.GetHttp() {
		for _, m := range route.GetMatch() {
			k.add(m.GetSourceLabels())
		}
	}
	for _, route := range vs.Spec.GetTcp() {
		for _, m := range route.GetMatch() {
			k.add(m.GetSourceLabels())
		}
	}
	for _, route := range vs.Spec.GetTls() {
		for _, m := range route.GetMatch() {
			k.add(m.GetSourceLabels())
		}
	}
}

// resolveVirtualService completes short names in a copy: resources are shared and never changed.
func resolveVirtualService(r *kinds.Resource, exportDefault []string) *VirtualService {
	spec := proto.CloneOf(specOf[*networking.VirtualService](r))
	for i, host := range spec.GetHosts() {
		spec.Hosts[i] = strings.ToLower(resolveHost(host, r.Namespace))
	}
	for _, d := range destinations(spec) {
		d.Host = resolveHost(d.GetHost(), r.Namespace)
	}
	for _, names := range gatewayLists(spec) {
		for i, name := range names {
			names[i] = resolveGateway(name, r.Namespace)
		}
	}
	return &VirtualService{Resource: r, Spec: spec, visibility: exported(spec.GetExportTo(), exportDefault, r.Namespace)}
}

// destinations lists every place that a VirtualService can send traffic to.
func destinations(spec *networking.VirtualService) []*networking.Destination {
	var out []*networking.Destination
	add := func(d *networking.Destination) {
		if d != nil {
			out = append(out, d)
		}
	}
	for _, route := range spec.GetHttp() {
		for _, to := range route.GetRoute() {
			add(to.GetDestination())
		}
		add(route.GetMirror())
		for _, m := range route.GetMirrors() {
			add(m.GetDestination())
		}
	}
	for _, route := range spec.GetTcp() {
		for _, to := range route.GetRoute() {
			add(to.GetDestination())
		}
	}
	for _, route := range spec.GetTls() {
		for _, to := range route.GetRoute() {
			add(to.GetDestination())
		}
	}
	return out
}

// gatewayLists are the lists of gateways in a VirtualService, its own and those of its matches.
func gatewayLists(spec *networking.VirtualService) [][]string {
	out := [][]string{spec.GetGateways()}
	for _, route := range spec.GetHttp() {
		for _, m := range route.GetMatch() {
			out = append(out, m.GetGateways())
		}
	}
	for _, route := range spec.GetTcp() {
		for _, m := range route.GetMatch() {
			out = append(out, m.GetGateways())
		}
	}
	for _, route := range spec.GetTls() {
		for _, m := range route.GetMatch() {
			out = append(out, m.GetGateways())
		}
	}
	return out
}

// resolveGateway makes the name of a gateway namespace/name. People also write the bare name, ./name, and, as was once
// the rule, name.namespace or name.namespace.svc.cluster.local.
func resolveGateway(name, namespace string) string {
	if name == MeshGateway {
		return name
	}
	if in, bare, found := strings.Cut(name, "/"); found {
		if in == "." {
			in = namespace
		}
		return in + "/" + bare
	}
	if bare, rest, dotted := strings.Cut(name, "."); dotted {
		in, _, _ := strings.Cut(rest, ".")
		return in + "/" + bare
	}
	return namespace + "/" + name
}

// Serves reports whether one of the hosts of the VirtualService overlaps with host.
func (vs *VirtualService) Serves(host string) bool {
	return slices.ContainsFunc(vs.Spec.GetHosts(), func(h string) bool { return HostsOverlap(h, host) })
}

// compareVirtualServices puts the older first, as the snapshot does.
func compareVirtualServices(a, b *VirtualService) int {
	return cmp.Or(a.Resource.CreateTime.Compare(b.Resource.CreateTime),
		cmp.Compare(a.Resource.Name, b.Resource.Name), cmp.Compare(a.Resource.Namespace, b.Resource.Namespace))
}
