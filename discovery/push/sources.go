package push

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	messages "github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// mostSources bounds how many resources are named for one of Envoy's. The routes of one port may be
// made from thousands.
const mostSources = 50

// Source is a resource of the mesh that a resource of Envoy's was made from.
type Source struct {
	Of kinds.Key
	// Path is the field that made it, such as spec.configPatches[2]; "" if it is not known which.
	Path string
}

// Sources lists the resources of the mesh that a resource of Envoy's was made from, as a proxy was
// last offered it, for a person who asks which of them is to blame that the proxy refuses it. The
// likelier are before the others: first EnvoyFilters, which alone can write what nothing has
// checked; then rules and policies; then services. It lists none if the proxy has left.
//
// It looks through the resource, so it is for refusals and not for every push.
func (e *Engine) Sources(s *served.Subscriber, typeURL, name string) []Source {
	o, ok := e.originOf(s, typeURL, name)
	if !ok {
		return nil
	}
	switch typeURL {
	case ClusterType, EndpointType:
		o.ofCluster(name, typeURL == EndpointType)
	case SecretType:
		if key, known := o.Mesh.SecretBehind(o.Proxy, name); known {
			o.add(key)
		}
	case ExtensionType:
		o.ofExtension(name)
	case ListenerType:
		o.ofListener()
	case RouteType, VirtualHostType, ScopedRouteType:
		o.ofRoutes(name)
	}
	if config, known := o.Mesh.MeshConfig(); known && len(o.keys)+len(o.services) == 0 {
		o.add(config)
	}
	return o.list()
}

// origin collects what a resource of Envoy's was made from.
type origin struct {
	view.View

	frontend *mesh.Frontend // of routers
	resource proto.Message  // nil if the proxy is not offered it any more

	keys, services []kinds.Key
	seen           map[kinds.Key]bool
	patches        map[kinds.Key][]string // the paths of those of EnvoyFilters
}

// originOf finds a resource of a proxy, and the EnvoyFilters that may have changed it.
func (e *Engine) originOf(s *served.Subscriber, typeURL, name string) (*origin, bool) {
	e.mu.Lock()
	m := e.members[s]
	if m == nil || m.class == nil || m.offered == nil {
		e.mu.Unlock()
		return nil, false
	}
	of, proxy, frontend, set := e.mesh, m.configured, m.class.sharedView.frontend, m.offered.Sets[typeURL]
	e.mu.Unlock()
	o := &origin{View: view.Of(of, proxy), frontend: frontend, seen: map[kinds.Key]bool{}, patches: map[kinds.Key][]string{}}
	if r := set.Get(name); r != nil {
		if decoded, err := r.Body.UnmarshalNew(); err == nil {
			o.resource = decoded
		}
	}
	if o.resource != nil {
		for _, patch := range envoyfilter.For(of, proxy).Matching(o.resource) {
			key := patch.From.Key()
			o.add(key)
			o.patches[key] = append(o.patches[key], patch.Path())
		}
	}
	return o, true
}

// add adds resources, each once.
func (o *origin) add(keys ...kinds.Key) { o.keys = o.with(o.keys, keys) }

// serve adds resources that are named after the others.
func (o *origin) serve(keys ...kinds.Key) { o.services = o.with(o.services, keys) }

func (o *origin) with(list, keys []kinds.Key) []kinds.Key {
	for _, key := range keys {
		if len(list) < mostSources && !o.seen[key] && o.Mesh.Has(key) {
			o.seen[key] = true
			list = append(list, key)
		}
	}
	return list
}

func (o *origin) list() (all []Source) {
	for _, key := range slices.Concat(o.keys, o.services) {
		source := Source{Of: key}
		if paths := o.patches[key]; len(paths) == 1 {
			source.Path = paths[0]
		}
		all = append(all, source)
	}
	return all[:min(len(all), mostSources)]
}

// ofCluster adds the policy and the service that a cluster is for, and with endpoints those, too.
func (o *origin) ofCluster(name string, endpoints bool) {
	if port, inbound := strings.CutPrefix(name, "inbound|"); inbound {
		o.ofInbound(port[:max(0, strings.IndexByte(port, '|'))])
		return
	}
	host := hostIn(name)
	if rule := o.Scope.DestinationRule(o.Proxy, host); rule != nil {
		o.add(rule.From...)
	}
	if held := o.Scope.Policies(host); held != nil {
		o.add(held.From...)
	}
	switch service := o.Scope.Service(host); {
	case service == nil:
	case endpoints:
		o.serve(service.MadeFrom()...)
	default:
		o.serve(service.Entries()...)
	}
}

// hostIn is the host in a cluster's name, outbound|PORT|SUBSET|HOST or outbound_.PORT_.SUBSET_.HOST;
// "" if it has none.
func hostIn(cluster string) string {
	for _, separator := range []string{"|", "_."} {
		if parts := strings.SplitN(cluster, separator, 4); len(parts) == 4 && parts[0] == "outbound" {
			return parts[3]
		}
	}
	return ""
}

// ofInbound adds what the workload serves at a port; "" is any.
func (o *origin) ofInbound(port string) {
	if o.Scope.Sidecar != nil {
		o.add(o.Scope.Sidecar.Key())
	}
	for _, t := range o.Mesh.Targets(o.Proxy) {
		if port != "" && strconv.FormatUint(uint64(t.Number), 10) != port {
			continue
		}
		if rule := o.Scope.InboundDestinationRule(t.Service.Hostname); rule != nil {
			o.add(rule.From...)
		}
		o.serve(t.Service.Entries()...)
	}
}

// ofExtension adds the extension of a name, and what its module is pulled with.
func (o *origin) ofExtension(name string) {
	for _, e := range o.Mesh.Extensions(o.Proxy) {
		if e.Name != name {
			continue
		}
		o.add(e.Resource.Key())
		if secret, pulls := e.PullSecret(); pulls {
			o.add(secret)
		}
	}
}

// ofListener adds what a listener is for, what guards it, what its chains were made from, and what
// it logs and traces.
func (o *origin) ofListener() {
	l, _ := o.resource.(*listenerv3.Listener)
	o.named()
	switch {
	case o.frontend != nil:
		o.add(o.frontend.Opening(l.GetAddress().GetSocketAddress().GetPortValue(), "")...)
		o.add(o.Mesh.Guarding(o.Proxy)...)
	case l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND:
		o.add(o.Mesh.Guarding(o.Proxy)...)
		o.ofInbound("")
	case o.Scope.Sidecar != nil:
		o.add(o.Scope.Sidecar.Key())
	}
	o.add(o.Mesh.Telling(o.Proxy)...)
}

// ofRoutes adds the rules of a route configuration, or of a part of one.
func (o *origin) ofRoutes(name string) {
	o.named()
	if o.frontend != nil {
		o.add(o.frontend.Opening(0, name)...)
		if slash := strings.LastIndexByte(name, '/'); slash >= 0 {
			o.add(o.frontend.Opening(0, name[:slash])...)
		}
	}
}

// named adds the resources that the metadata in Envoy's resource names, and those of the clusters
// that it leads to.
func (o *origin) named() {
	if o.resource == nil {
		return
	}
	telling := map[string]bool{}
	eachText(o.resource.ProtoReflect(), func(text string) {
		if strings.HasPrefix(text, "/apis/") || strings.HasPrefix(text, mesh.ExtensionPrefix) || hostIn(text) != "" {
			telling[text] = true
		}
	})
	for _, text := range slices.Sorted(maps.Keys(telling)) {
		if key, ok := messages.ResourceAt(text); ok {
			o.add(key)
		} else if strings.HasPrefix(text, mesh.ExtensionPrefix) {
			o.ofExtension(text)
		} else {
			o.ofCluster(text, false)
		}
	}
}
