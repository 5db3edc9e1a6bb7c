package mesh

import (
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
}

// virtualServiceIndex is every VirtualService that addresses sidecars, the oldest first.
type virtualServiceIndex struct {
	mesh         []*VirtualService
	resolved     map[*kinds.Resource]*VirtualService
	sourceLabels labelKeys
}

func buildVirtualServices(snapshot *configstore.Snapshot, prev *Mesh, config *meshconfig.MeshConfig, sameConfig bool) virtualServiceIndex {
	if sameConfig && prev.unchanged(snapshot, kindVirtualService) {
		return prev.virtual
	}
	index := virtualServiceIndex{resolved: map[*kinds.Resource]*VirtualService{}, sourceLabels: labelKeys{}}
	for r := range snapshot.Of(kindVirtualService) {
		vs, known := prev.virtual.resolved[r]
		if !known || !sameConfig {
			vs = resolveVirtualService(r, config.GetDefaultVirtualServiceExportTo())
		}
		index.resolved[r] = vs
		if len(vs.Spec.GetGateways()) == 0 || slices.Contains(vs.Spec.GetGateways(), MeshGateway) {
			index.mesh = append(index.mesh, vs)
			index.collectLabels(vs)
		}
	}
	return index
}

func (x *virtualServiceIndex) collectLabels(vs *VirtualService) {
	for _, route := range vs.Spec.GetHttp() {
		for _, m := range route.GetMatch() {
			x.sourceLabels.add(m.GetSourceLabels())
		}
	}
	for _, route := range vs.Spec.GetTcp() {
		for _, m := range route.GetMatch() {
			x.sourceLabels.add(m.GetSourceLabels())
		}
	}
	for _, route := range vs.Spec.GetTls() {
		for _, m := range route.GetMatch() {
			x.sourceLabels.add(m.GetSourceLabels())
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

// Serves reports whether one of the hosts of the VirtualService overlaps with host.
func (vs *VirtualService) Serves(host string) bool {
	return slices.ContainsFunc(vs.Spec.GetHosts(), func(h string) bool { return HostsOverlap(h, host) })
}
