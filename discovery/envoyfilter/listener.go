package envoyfilter

import (
	"cmp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// InListeners is what a patch can change in a listener. Routes inside a listener are patched before
// the listener is.
var InListeners = []networking.EnvoyFilter_ApplyTo{
	networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE,
	networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_LISTENER_FILTER, networking.EnvoyFilter_FILTER_CHAIN,
	networking.EnvoyFilter_NETWORK_FILTER, networking.EnvoyFilter_HTTP_FILTER,
}

// Listeners applies the patches of listeners, and of what is in them.
func (p *Patcher) Listeners(listeners []*listenerv3.Listener) []*listenerv3.Listener {
	if !p.Patches(InListeners...) {
		return listeners
	}
	out := make([]*listenerv3.Listener, 0, len(listeners))
	names := make(map[string]bool, len(listeners)) // names that a patch may not give to another listener
	for _, l := range listeners {
		names[l.GetName()] = true
	}
	for _, l := range listeners {
		inbound := l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND
		if patched, there := applyPatches(p, l.GetName(), p.context(inbound), p.patches.of(InListeners...), l, (*edit).listener); there {
			out = append(out, p.renamed(names, l, patched))
		}
	}
	for _, context := range p.contexts() {
		for _, patch := range p.patches[networking.EnvoyFilter_LISTENER] {
			if added, _ := patch.Value.(*listenerv3.Listener); adds(patch, context) && p.canAdd(out, patch, added) {
				out = append(out, added)
			}
		}
	}
	return out
}

// renamed returns a patched listener, or the unpatched one if it now has the name of another.
func (p *Patcher) renamed(taken map[string]bool, was, is *listenerv3.Listener) *listenerv3.Listener {
	if is.GetName() == was.GetName() || is.GetName() != "" && !taken[is.GetName()] {
		taken[is.GetName()] = true
		return is
	}
	for _, patch := range p.patches[networking.EnvoyFilter_LISTENER] {
		if value, _ := patch.Value.(*listenerv3.Listener); patch.Merges() && value.GetName() == is.GetName() {
			p.fail(patch, was.GetName(), "there would be two listeners "+is.GetName())
		}
	}
	return was
}

// canAdd reports whether a listener can be added beside the others.
func (p *Patcher) canAdd(others []*listenerv3.Listener, patch mesh.Patch, added *listenerv3.Listener) bool {
	if added.GetName() == "" {
		p.fail(patch, "the listeners", "the listener has no name")
		return false
	}
	for _, l := range others {
		switch {
		case l.GetName() == added.GetName():
			p.fail(patch, added.GetName(), "there is a listener of this name")
			return false
		case sameSocket(l, added):
			p.fail(patch, added.GetName(), "the listener "+l.GetName()+" has the same address")
			return false
		}
	}
	return true
}

func sameSocket(a, b *listenerv3.Listener) bool {
	binds := func(l *listenerv3.Listener) bool { return l.GetBindToPort() == nil || l.GetBindToPort().GetValue() }
	anyPort := a.GetAddress().GetSocketAddress().GetPortValue() == 0 && a.GetAddress().GetSocketAddress() != nil
	return !anyPort && binds(a) == binds(b) && proto.Equal(a.GetAddress(), b.GetAddress())
}

// listener applies patches from the outside in.
func (e *edit) listener(l *listenerv3.Listener) (*listenerv3.Listener, bool) {
	l, there := removedOrMerged(e.patches[networking.EnvoyFilter_LISTENER], e.carriedRoutes(l), matchesListener, mergedBy)
	if !there {
		return nil, false
	}
	return e.chains(e.listenerFilters(l)), true
}

func (e *edit) listenerFilters(l *listenerv3.Listener) *listenerv3.Listener {
	filters, changed := l.GetListenerFilters(), false
	placing := newPlacing[*listenerv3.ListenerFilter]()
	for _, patch := range e.patches[networking.EnvoyFilter_LISTENER_FILTER] {
		if !matchesListener(patch, l) {
			continue
		}
		name := patch.Match.GetListener().GetListenerFilter()
		var did bool
		if patch.Merges() {
			filters, did = e.mergeListenerFilters(filters, patch, name)
		} else {
			filters, did = placing.put(filters, patch, name, name != "")
		}
		changed = changed || did
	}
	if !changed {
		return l
	}
	return altered(l, func(to *listenerv3.Listener) { to.ListenerFilters = filters })
}

func (e *edit) mergeListenerFilters(filters []*listenerv3.ListenerFilter, patch mesh.Patch, name string) ([]*listenerv3.ListenerFilter, bool) {
	return each(filters, func(f *listenerv3.ListenerFilter) (*listenerv3.ListenerFilter, bool) {
		if !sameName(name, f) {
			return f, true
		}
		return mergedFilter(e, f, patch, true, func(to *listenerv3.ListenerFilter, name string, config *anypb.Any) {
			to.Name, to.ConfigType = name, &listenerv3.ListenerFilter_TypedConfig{TypedConfig: config}
		}), true
	})
}

// each replaces and removes items, and reports whether it did.
func each[T comparable](list []T, change func(T) (T, bool)) (out []T, changed bool) {
	for i, item := range list {
		now, there := change(item)
		if !changed && there && now == item {
			continue
		}
		if !changed {
			out, changed = append(make([]T, 0, len(list)), list[:i]...), true
		}
		if there {
			out = append(out, now)
		}
	}
	if !changed {
		return list, false
	}
	return out, true
}

// isVirtual reports whether a listener is for all ports. Its chains are told apart by the port that
// a connection was meant for.
func isVirtual(l *listenerv3.Listener) bool {
	return l.GetName() == "virtualInbound" || l.GetName() == "virtualOutbound"
}

func matchesListener(patch mesh.Patch, l *listenerv3.Listener) bool {
	match := patch.Match.GetListener()
	if match == nil {
		return true
	}
	if match.GetName() != "" && match.GetName() != l.GetName() {
		return false
	}
	if patch.ApplyTo != networking.EnvoyFilter_LISTENER && isVirtual(l) {
		return true
	}
	socket := l.GetAddress().GetSocketAddress()
	return match.GetPortNumber() == 0 || socket != nil && socket.GetPortValue() == match.GetPortNumber()
}

// transportSocket names the transport socket of a chain. Without one, Envoy's default applies: raw
// bytes.
func transportSocket(chain *listenerv3.FilterChain) string {
	return cmp.Or(chain.GetTransportSocket().GetName(), "envoy.transport_sockets.raw_buffer")
}

// matchesChain reports whether a patch for this listener is for one of its chains.
func matchesChain(patch mesh.Patch, l *listenerv3.Listener, chain *listenerv3.FilterChain) bool {
	match, of := patch.Match.GetListener(), chain.GetFilterChainMatch()
	if match == nil {
		return true
	}
	if isVirtual(l) && match.GetPortNumber() > 0 && of.GetDestinationPort().GetValue() != match.GetPortNumber() {
		return false
	}
	wanted := match.GetFilterChain()
	switch {
	case wanted == nil:
		return true
	case wanted.GetName() != "" && wanted.GetName() != chain.GetName(),
		wanted.GetSni() != "" && !slices.Contains(of.GetServerNames(), wanted.GetSni()),
		wanted.GetTransportProtocol() != "" && wanted.GetTransportProtocol() != of.GetTransportProtocol(),
		wanted.GetTransportSocket() != "" && wanted.GetTransportSocket() != transportSocket(chain),
		wanted.GetDestinationPort() > 0 && wanted.GetDestinationPort() != of.GetDestinationPort().GetValue():
		return false
	}
	return wanted.GetApplicationProtocols() == "" || !slices.ContainsFunc(strings.Split(wanted.GetApplicationProtocols(), ","), func(protocol string) bool {
		return !slices.Contains(of.GetApplicationProtocols(), protocol)
	})
}
