package envoyfilter

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// filter is a filter of any type of chain.
type filter interface {
	proto.Message
	comparable
	GetName() string
	GetTypedConfig() *anypb.Any
}

// Filters can be added by class. Each list has the names of the filters that a class comes after.
// The third class comes before the place of Istio's telemetry.
var (
	authenticating = []string{"envoy.filters.http.jwt_authn", "istio_authn", "envoy.filters.network.istio_authn"}
	authorizing    = []string{"envoy.filters.http.ext_authz", "envoy.filters.http.rbac", "envoy.filters.network.ext_authz", "envoy.filters.network.rbac"}
	counting       = []string{"istio.stats", "envoy.filters.http.grpc_stats"}
)

// placing finds the places of added filters. It remembers them, so that filters of one class stay
// in their order.
type placing[F filter] struct {
	added map[networking.EnvoyFilter_Patch_FilterClass][]F
}

// at returns the place of a filter of a class. One without a class comes last, but before the
// filter that ends the chain.
func (p placing[F]) at(class networking.EnvoyFilter_Patch_FilterClass, value F) func([]F) int {
	return func(list []F) int {
		switch class {
		case networking.EnvoyFilter_Patch_AUTHN:
			return p.after(list, authenticating, networking.EnvoyFilter_Patch_AUTHN)
		case networking.EnvoyFilter_Patch_AUTHZ:
			return p.after(list, slices.Concat(authenticating, authorizing), networking.EnvoyFilter_Patch_AUTHN, networking.EnvoyFilter_Patch_AUTHZ)
		case networking.EnvoyFilter_Patch_STATS:
			if i := slices.IndexFunc(list, func(f F) bool { return slices.Contains(counting, f.GetName()) }); i >= 0 {
				return i
			}
		case networking.EnvoyFilter_Patch_UNSPECIFIED:
		}
		return end(list, value)
	}
}

func (p placing[F]) after(list []F, names []string, classes ...networking.EnvoyFilter_Patch_FilterClass) int {
	for i, f := range slices.Backward(list) {
		if slices.Contains(names, f.GetName()) {
			return i + 1
		}
		for _, class := range classes {
			if slices.Contains(p.added[class], f) {
				return i + 1
			}
		}
	}
	return 0
}

// end is the end of a chain, before the filter that ends it.
func end[F filter](list []F, value F) int {
	if last := len(list) - 1; last >= 0 && envoy.Terminal(list[last]) && !envoy.Terminal(value) {
		return last
	}
	return len(list)
}

// put applies a patch to a chain of filters.
func (p placing[F]) put(list []F, patch mesh.Patch, name string, named bool) ([]F, bool) {
	value, _ := patch.Value.(F)
	out, changed := in[F]{
		named: named, is: func(f F) bool { return envoy.SameFilter(name, f.GetName()) }, addedAt: p.at(patch.Class, value),
	}.apply(list, patch, value)
	if changed && patch.Operation == networking.EnvoyFilter_Patch_ADD {
		p.added[patch.Class] = append(p.added[patch.Class], value)
	}
	return out, changed
}

func newPlacing[F filter]() placing[F] {
	return placing[F]{map[networking.EnvoyFilter_Patch_FilterClass][]F{}}
}

// mergedFilter merges the configuration of a filter, and renames it if the patch has a name. A
// patch that names no filter is only for filters of its type.
func mergedFilter[F filter](e *edit, f F, patch mesh.Patch, named bool, set func(to F, name string, config *anypb.Any)) F {
	value, _ := patch.Value.(F)
	config := f.GetTypedConfig()
	if config == nil {
		return f
	}
	if value.GetTypedConfig() != nil {
		if !named && !sameType(config, value.GetTypedConfig()) {
			return f
		}
		var err error
		if config, err = mergedPacked(config, value.GetTypedConfig(), patch.ReplacesLists()); err != nil {
			e.fail("the filter " + f.GetName() + ": " + err.Error())
			return f
		}
	}
	name := f.GetName()
	if value.GetName() != "" {
		name = value.GetName()
	}
	return altered(f, func(to F) { set(to, name, config) })
}

func sameType(a, b *anypb.Any) bool {
	x, err := envoy.Unpack(a)
	if err != nil {
		return false
	}
	y, err := envoy.Unpack(b)
	return err == nil && x.ProtoReflect().Descriptor() == y.ProtoReflect().Descriptor()
}
