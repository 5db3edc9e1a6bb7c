package envoyfilter

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// chains applies the patches of filter chains and of what is in them, and adds chains.
func (e *edit) chains(l *listenerv3.Listener) *listenerv3.Listener {
	change := func(chain *listenerv3.FilterChain) (*listenerv3.FilterChain, bool) { return e.chain(l, chain) }
	chains, changed := each(l.GetFilterChains(), change)
	fallback := l.GetDefaultFilterChain()
	if fallback != nil {
		if now, there := change(fallback); !there || now != fallback {
			fallback, changed = now, true
		}
	}
	for _, patch := range e.patches[networking.EnvoyFilter_FILTER_CHAIN] {
		if value, _ := patch.Value.(*listenerv3.FilterChain); patch.Operation == networking.EnvoyFilter_Patch_ADD && matchesListener(patch, l) {
			chains, changed = inserted(chains, len(chains), value), true
		}
	}
	if !changed {
		return l
	}
	return altered(l, func(to *listenerv3.Listener) { to.FilterChains, to.DefaultFilterChain = chains, fallback })
}

func (e *edit) chain(l *listenerv3.Listener, chain *listenerv3.FilterChain) (*listenerv3.FilterChain, bool) {
	matches := func(patch mesh.Patch, chain *listenerv3.FilterChain) bool {
		return matchesListener(patch, l) && matchesChain(patch, l, chain)
	}
	chain, there := removedOrMerged(e.patches[networking.EnvoyFilter_FILTER_CHAIN], chain, matches, e.mergedChain)
	if !there {
		return nil, false
	}
	return e.networkFilters(l, chain), true
}

// mergedChain merges the configurations of both transport sockets, if they have the same name.
func (e *edit) mergedChain(chain, value *listenerv3.FilterChain, patch mesh.Patch) *listenerv3.FilterChain {
	out := mergedBy(chain, value, patch)
	if value.GetTransportSocket() == nil || chain.GetTransportSocket().GetName() != value.GetTransportSocket().GetName() {
		return out
	}
	socket := e.mergedSocket(chain.GetTransportSocket(), value.GetTransportSocket(), patch)
	return altered(out, func(to *listenerv3.FilterChain) { to.TransportSocket = socket })
}

// networkFilters first inserts and removes filters, then merges into them, and then patches the
// HTTP filters inside.
func (e *edit) networkFilters(l *listenerv3.Listener, chain *listenerv3.FilterChain) *listenerv3.FilterChain {
	filters, changed := chain.GetFilters(), false
	placing := newPlacing[*listenerv3.Filter]()
	var patches []mesh.Patch
	for _, patch := range e.patches[networking.EnvoyFilter_NETWORK_FILTER] {
		if matchesListener(patch, l) && matchesChain(patch, l, chain) {
			patches = append(patches, patch)
		}
	}
	for _, patch := range patches {
		name, named := networkFilterOf(patch)
		var did bool
		filters, did = placing.put(filters, patch, name, named)
		changed = changed || did
	}
	filters, did := each(filters, func(f *listenerv3.Filter) (*listenerv3.Filter, bool) {
		return e.httpFilters(l, chain, e.networkFilter(f, patches)), true
	})
	if !changed && !did {
		return chain
	}
	return altered(chain, func(to *listenerv3.FilterChain) { to.Filters = filters })
}

// networkFilterOf returns the name of the filter that a patch is for, if it names one.
func networkFilterOf(patch mesh.Patch) (name string, named bool) {
	filter := patch.Match.GetListener().GetFilterChain().GetFilter()
	return filter.GetName(), filter != nil
}

func isNetworkFilter(patch mesh.Patch, f *listenerv3.Filter) bool {
	name, named := networkFilterOf(patch)
	return !named || sameName(name, f)
}

func sameName(name string, f interface{ GetName() string }) bool {
	return envoy.SameFilter(name, f.GetName())
}

func (e *edit) networkFilter(f *listenerv3.Filter, patches []mesh.Patch) *listenerv3.Filter {
	for _, patch := range patches {
		if !patch.Merges() || !isNetworkFilter(patch, f) {
			continue
		}
		_, named := networkFilterOf(patch)
		f = mergedFilter(e, f, patch, named, func(to *listenerv3.Filter, name string, config *anypb.Any) {
			to.Name, to.ConfigType = name, &listenerv3.Filter_TypedConfig{TypedConfig: config}
		})
	}
	return f
}

// httpFilters applies the patches of the filters within a connection manager.
func (e *edit) httpFilters(l *listenerv3.Listener, chain *listenerv3.FilterChain, f *listenerv3.Filter) *listenerv3.Filter {
	var patches []mesh.Patch
	for _, patch := range e.patches[networking.EnvoyFilter_HTTP_FILTER] {
		if f.GetName() == envoy.ConnectionManager && matchesListener(patch, l) && matchesChain(patch, l, chain) && isNetworkFilter(patch, f) {
			patches = append(patches, patch)
		}
	}
	if len(patches) == 0 {
		return f
	}
	return e.managed(f, func(m *hcmv3.HttpConnectionManager) *hcmv3.HttpConnectionManager {
		filters, changed := e.putHTTP(m.GetHttpFilters(), patches)
		filters, did := each(filters, func(f *hcmv3.HttpFilter) (*hcmv3.HttpFilter, bool) { return e.httpFilter(f, patches), true })
		if !changed && !did {
			return m
		}
		return altered(m, func(to *hcmv3.HttpConnectionManager) { to.HttpFilters = filters })
	})
}

// managed changes the configuration of a connection manager.
func (e *edit) managed(f *listenerv3.Filter, change func(*hcmv3.HttpConnectionManager) *hcmv3.HttpConnectionManager) *listenerv3.Filter {
	manager := &hcmv3.HttpConnectionManager{}
	if !f.GetTypedConfig().MessageIs(manager) || f.GetTypedConfig().UnmarshalTo(manager) != nil {
		return f
	}
	changed := change(manager)
	if changed == manager {
		return f
	}
	packed, err := pack(changed)
	if err != nil {
		e.fail(err.Error())
		return f
	}
	return altered(f, func(to *listenerv3.Filter) { to.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed} })
}

func (e *edit) putHTTP(filters []*hcmv3.HttpFilter, patches []mesh.Patch) (out []*hcmv3.HttpFilter, changed bool) {
	placing := newPlacing[*hcmv3.HttpFilter]()
	for _, patch := range patches {
		name, named := httpFilterOf(patch)
		var did bool
		filters, did = placing.put(filters, patch, name, named)
		changed = changed || did
	}
	return filters, changed
}

func httpFilterOf(patch mesh.Patch) (name string, named bool) {
	filter := patch.Match.GetListener().GetFilterChain().GetFilter().GetSubFilter()
	return filter.GetName(), filter != nil
}

func (e *edit) httpFilter(f *hcmv3.HttpFilter, patches []mesh.Patch) *hcmv3.HttpFilter {
	for _, patch := range patches {
		name, named := httpFilterOf(patch)
		if !patch.Merges() || named && !sameName(name, f) {
			continue
		}
		f = mergedFilter(e, f, patch, named, func(to *hcmv3.HttpFilter, name string, config *anypb.Any) {
			to.Name, to.ConfigType = name, &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}
		})
	}
	return f
}
