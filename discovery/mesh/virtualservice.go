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
			vs = resolveVirtualService(r, config.DefaultVirtualServiceExportTo)
		}
		index.resolved[r] = vs
		if len(vs.Spec.Gateways) == 0 || slices.Contains(vs.Spec.Gateways, MeshGateway) {
			index.mesh = append(index.mesh, vs)
			index.collectLabels(vs)
		}
	}
	return index
}

func (x *virtualServiceIndex) collectLabels(vs *VirtualService) {
	for _, route := range vs.Spec.Http {
		for _, m := range route.Match {
			x.sourceLabels.add(m.SourceLabels)
		}
	}
	for _, route := range vs.Spec.Tcp {
		for _, m := range route.Match {
			x.sourceLabels.add(m.SourceLabels)
		}
	}
	for _, route := range vs.Spec.Tls {
		for _, m := range route.Match {
			x.sourceLabels.add(m.SourceLabels)
		}
	}
}

// resolveVirtualService completes short names in a copy: resources are shared and never changed.
func resolveVirtualService(r *kinds.Resource, exportDefault []string) *VirtualService {
	spec := proto.Clone(r.Spec).(*networking.VirtualService)
	for i, host := range spec.Hosts {
		spec.Hosts[i] = strings.ToLower(resolveHost(host, r.Namespace))
	}
	for _, d := range destinations(spec) {
		d.Host = resolveHost(d.Host, r.Namespace)
	}
	return &VirtualService{Resource: r, Spec: spec, visibility: exported(spec.ExportTo, exportDefault, r.Namespace)}
}

// destinations lists every place that a VirtualService can send traffic to.
func destinations(spec *networking.VirtualService) []*networking.Destination {
	var out []*networking.Destination
	add := func(d *networking.Destination) {
		if d != nil {
			out = append(out, d)
		}
	}
	for _, route := range spec.Http {
		for _, to := range route.Route {
			add(to.Destination)
		}
		add(route.Mirror)
		for _, m := range route.Mirrors {
			add(m.Destination)
		}
	}
	for _, route := range spec.Tcp {
		for _, to := range route.Route {
			add(to.Destination)
		}
	}
	for _, route := range spec.Tls {
		for _, to := range route.Route {
			add(to.Destination)
		}
	}
	return out
}

// Serves reports whether one of the hosts of the VirtualService overlaps with host.
func (vs *VirtualService) Serves(host string) bool {
	return slices.ContainsFunc(vs.Spec.Hosts, func(h string) bool { return HostsOverlap(h, host) })
}
