package push

import (
	"maps"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/discovery/translate/extension"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// ownPart is a type that classes do not share.
type ownPart struct {
	typeURL string
	// same reports whether the inputs of the part are unchanged, for a class that kept its shared
	// view.
	same func(now, before *ingredients) bool
	make func(*Engine, *class, view.View, *envoyfilter.Patcher) made
}

var ownParts = []ownPart{
	{ExtensionType, func(now, before *ingredients) bool {
		return sameConditions(now, before) && slices.Equal(now.extensions, before.extensions) && slices.Equal(now.pullSecrets, before.pullSecrets)
	}, func(e *Engine, _ *class, v view.View, patches *envoyfilter.Patcher) made {
		return encode(&e.once, patches.Extensions(extension.Configs(v)), (*corev3.TypedExtensionConfig).GetName, nil)
	}},
	{ListenerType, func(now, before *ingredients) bool {
		return now.generations.listened == before.generations.listened && now.serves(before) && now.guards(before) && now.tokens == before.tokens &&
			now.tells(before)
	}, (*Engine).listeners},
	{SecretType, func(now, before *ingredients) bool {
		return sameConditions(now, before) && slices.Equal(now.secrets, before.secrets) && now.authorities == before.authorities
	}, func(e *Engine, _ *class, v view.View, _ *envoyfilter.Patcher) made {
		return encode(&e.once, secret.Of(v), (*tlsv3.Secret).GetName, nil)
	}},
}

// outboundKey tells apart the outbound listeners that a shared view has. Proxies of one view may
// still differ in what they tell of their traffic, in extensions, and in whether requests wait for
// routes on demand.
type outboundKey struct {
	tags, telemetry, reached, extensions string
	told                                 *mesh.Telemetry
	onDemand                             bool
}

func (e *Engine) outboundKeyOf(c *class) outboundKey {
	told := e.mesh.Telemetry(c.of.configured)
	return outboundKey{c.of.key.Tags, c.of.key.Telemetry, told.Reached(c.sharedView.scope), c.of.key.Extensions, told, c.of.key.OnDemand}
}

// listeners returns the class's inbound listeners, and the outbound ones that it shares with others
// of its shared view. A router's listeners all count as outbound.
func (e *Engine) listeners(c *class, v view.View, patches *envoyfilter.Patcher) made {
	if patches.Patches(envoyfilter.InListeners...) {
		return encodeListeners(e, patches.Listeners(translate.Listeners(v)))
	}
	if c.of.key.Type == mesh.Router {
		return encodeListeners(e, translate.OutboundListeners(v))
	}
	alike := e.outboundKeyOf(c)
	shared, known := c.sharedView.outbound[alike]
	if !known {
		shared = encodeListeners(e, translate.OutboundListeners(v))
		c.sharedView.keepOutbound(e, alike, shared)
	}
	own := encodeListeners(e, translate.InboundListeners(v))
	own.add(shared)
	return own
}

// keepOutbound keeps outbound listeners for other classes. It drops those that no class has any
// more, once they may be as many as the others.
func (x *sharedView) keepOutbound(e *Engine, key outboundKey, listeners made) {
	if len(x.outbound) > 2*len(x.classes) {
		used := make(map[outboundKey]bool, len(x.classes))
		for c := range x.classes {
			used[e.outboundKeyOf(c)] = true
		}
		maps.DeleteFunc(x.outbound, func(of outboundKey, _ made) bool { return !used[of] })
	}
	x.outbound[key] = listeners
}

func encodeListeners(e *Engine, listeners []*listenerv3.Listener) made {
	return encode(&e.once, listeners, (*listenerv3.Listener).GetName, nil)
}

func sameConditions(now, before *ingredients) bool {
	return now.generations.conditions == before.generations.conditions
}

func encodeClusters(once *onlyOnce, clusters []*clusterv3.Cluster) made {
	return encode(once, clusters, (*clusterv3.Cluster).GetName, referToEndpoints)
}

func encodeEndpoints(once *onlyOnce, all []*endpointv3.ClusterLoadAssignment) made {
	return encode(once, all, (*endpointv3.ClusterLoadAssignment).GetClusterName, noteEmpty)
}

func encodeNames(once *onlyOnce, table *ndsv1.NameTable) made {
	names, known := once.encode(table, "names")
	if !known {
		once.keep(names)
	}
	return made{resources: []*served.Resource{names}}
}

// referToEndpoints names the endpoints that Envoy asks for once it has a cluster. It cannot use the
// cluster without them.
func referToEndpoints(c *clusterv3.Cluster, r *served.Resource) {
	if c.GetType() != clusterv3.Cluster_EDS {
		return
	}
	name := c.GetEdsClusterConfig().GetServiceName()
	if name == "" {
		name = c.GetName()
	}
	r.Refs = []served.Ref{{TypeURL: EndpointType, Name: name}}
	r.Warms = warms(c)
}

// noteEmpty marks a cluster without endpoints: routes that lead there have to change first.
func noteEmpty(a *endpointv3.ClusterLoadAssignment, r *served.Resource) {
	r.Empty = len(a.GetEndpoints()) == 0
}
