package push_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// take stores a response.
func (e *simulated) take(a *answer) {
	before := e.has[a.typeURL]
	if before == nil {
		before = map[string]held{}
	}
	after := maps.Clone(before)
	if !e.proxy.incremental && !slices.Contains(byName, a.typeURL) {
		clear(after)
	}
	for name, h := range a.resources {
		delete(e.warming, served.Ref{TypeURL: a.typeURL, Name: name})
		if !e.interested(a.typeURL, name) {
			continue
		}
		if was, ok := before[name]; a.typeURL == push.ClusterType && (!ok || string(was.body) != string(h.body)) {
			for _, ref := range h.asks {
				if ref.TypeURL == push.EndpointType {
					e.warming[ref] = true
				}
			}
		}
		after[name] = h
	}
	for _, name := range a.removed {
		if a.typeURL == push.ScopedRouteType {
			require.False(e.t, strings.HasSuffix(name, "/*") && e.uses(a.typeURL, name), "%s is taken from under a listener", name)
		}
		if a.typeURL != push.RouteType { // Envoy keeps a route configuration as long as a listener asks for it
			delete(after, name)
		}
	}
	e.has[a.typeURL] = after
	e.activate()
}

// activate finds the clusters that can be used. One that has come again is used as it was until the
// new one can be.
func (e *simulated) activate() {
	clusters := e.has[push.ClusterType]
	maps.DeleteFunc(e.active, func(name string, _ bool) bool { _, ok := clusters[name]; return !ok })
	for name, c := range clusters {
		if !slices.ContainsFunc(c.asks, func(ref served.Ref) bool { return e.warming[ref] }) {
			e.active[name] = true
		}
	}
}

// astray lists the clusters that requests are sent to, but that cannot be used.
func (e *simulated) astray() (names []string) {
	for _, typeURL := range leading {
		for name, h := range e.has[typeURL] {
			if !e.uses(typeURL, name) {
				continue
			}
			for _, name := range h.leads {
				if !e.active[name] {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// leading are the types that lead to clusters.
var leading = []string{push.ListenerType, push.RouteType, push.VirtualHostType, push.ScopedRouteType}

// uses reports whether a resource leads requests anywhere. Scoped routes do if a listener looks for
// them.
func (e *simulated) uses(typeURL, name string) bool {
	if typeURL != push.ScopedRouteType {
		return true
	}
	for _, l := range e.has[push.ListenerType] {
		if slices.Contains(l.scopes, ownerOf(name)) {
			return true
		}
	}
	return false
}

// interested reports whether Envoy has a use for a resource.
func (e *simulated) interested(typeURL, name string) bool {
	if typeURL == push.VirtualHostType {
		_, ok := e.has[push.RouteType][ownerOf(name)]
		return ok
	}
	if typeURL == push.ScopedRouteType {
		return e.scoped
	}
	return !slices.Contains(byName, typeURL) || e.wants[typeURL][name]
}

// ownerOf is the route configuration of a virtual host.
func ownerOf(host string) string { return host[:max(0, strings.LastIndexByte(host, '/'))] }

// follow asks for what the clusters and listeners refer to now, and drops the rest. It asks for
// listeners once there are clusters.
func (e *simulated) follow() {
	e.t.Helper()
	wanted := map[string]map[string]bool{}
	for _, typeURL := range byName {
		wanted[typeURL] = map[string]bool{}
	}
	for _, typeURL := range []string{push.ClusterType, push.ListenerType} {
		for _, h := range e.has[typeURL] {
			for _, ref := range h.asks {
				wanted[ref.TypeURL][ref.Name] = true
			}
		}
	}
	for _, typeURL := range byName {
		e.want(typeURL, wanted[typeURL])
	}
	maps.DeleteFunc(e.has[push.VirtualHostType], func(name string, _ held) bool { return !e.interested(push.VirtualHostType, name) })
	maps.DeleteFunc(e.warming, func(ref served.Ref, _ bool) bool { return !e.wants[ref.TypeURL][ref.Name] })
	e.askForHosts()
	e.askForScopes()
	if !e.asked[push.ListenerType] {
		e.ask(push.ListenerType, nil, nil)
	}
}

// want makes these the names that are asked for.
func (e *simulated) want(typeURL string, names map[string]bool) {
	e.t.Helper()
	var added, dropped []string
	for name := range names {
		if !e.wants[typeURL][name] {
			added = append(added, name)
		}
	}
	for name := range e.wants[typeURL] {
		if !names[name] {
			dropped = append(dropped, name)
			delete(e.has[typeURL], name)
		}
	}
	e.wants[typeURL] = names
	if len(added)+len(dropped) > 0 {
		e.ask(typeURL, slices.Sorted(slices.Values(added)), slices.Sorted(slices.Values(dropped)))
	}
}
