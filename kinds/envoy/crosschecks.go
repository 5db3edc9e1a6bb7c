package envoy

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// crossChecks checks what Envoy demands beyond the rules of single fields. It refuses a message for
// these, too, and patches break them easily.
func (c *checker) crossChecks(p place) {
	switch m := p.message.Interface().(type) {
	case *listenerv3.Listener:
		c.listener(p, m)
	case *listenerv3.FilterChain:
		c.chain(p, "filters", m.GetFilters())
	case *listenerv3.Filter:
		c.filter(p, m, m.GetConfigDiscovery(), networkFilters)
	case *clusterv3.Filter:
		c.filter(p, m, m.GetConfigDiscovery(), upstreamFilters)
	case *listenerv3.ListenerFilter:
		c.filter(p, m, m.GetConfigDiscovery(), listenerFilters, udpFilters, quicFilters)
	case *hcmv3.HttpConnectionManager:
		c.httpFilters(p, m.GetHttpFilters())
	case *hcmv3.HttpFilter:
		c.filter(p, m, m.GetConfigDiscovery(), httpFilters)
	case *routev3.RouteConfiguration:
		c.domains(p, m)
		c.bodies(p, m)
	case *clusterv3.Cluster:
		c.cluster(p, m)
	case *matcherv3.RegexMatcher:
		if _, err := regexp.Compile(m.GetRegex()); err != nil {
			c.invalid(p.path, fmt.Sprintf("%q is not a regular expression: %v", m.GetRegex(), err), "")
		}
	}
}

// configured is a filter with a configuration.
type configured interface {
	proto.Message
	GetTypedConfig() *anypb.Any
}

// filter checks that a filter has a configuration of its category.
func (c *checker) filter(p place, m configured, discovered *corev3.ExtensionConfigSource, categories ...string) {
	packed := m.GetTypedConfig()
	if packed == nil {
		if discovered == nil && !p.partial {
			c.invalid(p.path, "the filter has no typed_config", "Envoy knows filters by the type of their configuration alone")
		}
		return
	}
	name := typeOf(packed)
	if !category(categories).has(name) {
		c.invalid(p.path, fmt.Sprintf("%s is not the configuration of a filter that can be here", name), "")
	}
}

// typeOf returns the type of the packed message, or the type that a packed struct names.
func typeOf(packed *anypb.Any) protoreflect.FullName {
	if s, ok := structOf(packed); ok {
		url := s.GetTypeUrl()
		return protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
	}
	return packed.MessageName()
}

// Filters that end their chain, by answering or by forwarding.
var (
	terminalHTTP    = []protoreflect.FullName{"envoy.extensions.filters.http.router.v3.Router"}
	terminalNetwork = []protoreflect.FullName{
		"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
		"envoy.extensions.filters.network.redis_proxy.v3.RedisProxy",
		"envoy.extensions.filters.network.thrift_proxy.v3.ThriftProxy",
		"envoy.extensions.filters.network.dubbo_proxy.v3.DubboProxy",
		"envoy.extensions.filters.network.generic_proxy.v3.GenericProxy",
		"envoy.extensions.filters.network.direct_response.v3.Config",
		"envoy.extensions.filters.network.echo.v3.Echo",
		"envoy.extensions.filters.network.reverse_tunnel.v3.ReverseTunnel",
		"envoy.extensions.filters.network.reverse_tunnel.v3.DrainAwareHttpConnectionManager",
	}
)

// Terminal reports whether a filter ends its chain.
func Terminal(f interface{ GetTypedConfig() *anypb.Any }) bool {
	name := typeOf(f.GetTypedConfig())
	return slices.Contains(terminalHTTP, name) || slices.Contains(terminalNetwork, name)
}

// opaque reports whether a filter may be of any kind: its configuration is discovered later, or a
// dynamic module.
func opaque(f interface{ GetTypedConfig() *anypb.Any }) bool {
	name := f.GetTypedConfig().MessageName()
	return name == "" || name == "envoy.extensions.filters.network.dynamic_modules.v3.DynamicModuleNetworkFilter" ||
		name == "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"
}

func (c *checker) httpFilters(p place, filters []*hcmv3.HttpFilter) {
	if len(filters) == 0 {
		if !p.partial {
			c.invalid(p.path, "there is no HTTP filter", "the last one must be envoy.filters.http.router")
		}
		return
	}
	c.order(p, "http_filters", len(filters), func(i int) named { return filters[i] })
}

func (c *checker) chain(p place, field string, filters []*listenerv3.Filter) {
	c.order(p, field, len(filters), func(i int) named { return filters[i] })
}

type named interface {
	GetName() string
	GetTypedConfig() *anypb.Any
}

// order checks that a chain of filters ends with a terminal filter, and has no other.
func (c *checker) order(p place, field string, n int, filter func(int) named) {
	list := p.message.Descriptor().Fields().ByTextName(field)
	for i := range n {
		f, last := filter(i), i == n-1
		switch at := p.below(list, strconv.Itoa(i)).path; {
		case opaque(f):
		case !last && Terminal(f):
			c.invalid(at, fmt.Sprintf("nothing may come after the filter %s, which ends the chain", f.GetName()), "put filters before it, with INSERT_BEFORE")
		case last && !Terminal(f) && !p.partial:
			c.invalid(at, fmt.Sprintf("the filter %s cannot be the last one", f.GetName()), "a chain ends with one that answers or passes on, such as a router or tcp_proxy")
		}
	}
}

// listener checks that a listener has an address and filter chains, and that the chains match
// different connections.
func (c *checker) listener(p place, l *listenerv3.Listener) {
	if p.partial || l.GetUdpListenerConfig() != nil || l.GetApiListener() != nil || l.GetInternalListener() != nil {
		return
	}
	if l.GetAddress() == nil {
		c.invalid(p.path, "the listener has no address", "")
	}
	if len(l.GetFilterChains()) == 0 && l.GetDefaultFilterChain() == nil {
		c.invalid(p.path, "the listener has no filter chain", "to remove the listener, apply REMOVE to LISTENER")
	}
	seen := map[string]string{}
	list := p.message.Descriptor().Fields().ByTextName("filter_chains")
	for i, chain := range l.GetFilterChains() {
		match, _ := proto.MarshalOptions{Deterministic: true}.Marshal(chain.GetFilterChainMatch())
		if other, taken := seen[string(match)]; taken {
			c.invalid(p.below(list, strconv.Itoa(i)).path, fmt.Sprintf("the filter chain %q is for the same connections as %q", chain.GetName(), other),
				"give it a filter_chain_match of its own")
		}
		seen[string(match)] = chain.GetName()
	}
}

// domains checks that virtual hosts share neither domains nor names.
func (c *checker) domains(p place, r *routev3.RouteConfiguration) {
	domains, names := map[string]string{}, map[string]bool{}
	list := p.message.Descriptor().Fields().ByTextName("virtual_hosts")
	for i, host := range r.GetVirtualHosts() {
		at := p.below(list, strconv.Itoa(i)).path
		if names[host.GetName()] {
			c.invalid(at, fmt.Sprintf("there are two virtual hosts %q", host.GetName()), "give it a name of its own")
		}
		names[host.GetName()] = true
		for _, domain := range host.GetDomains() {
			domain = strings.ToLower(domain)
			if other, taken := domains[domain]; taken {
				c.invalid(at, fmt.Sprintf("the domain %q is that of the virtual host %q, too", domain, other), "a domain can be in one virtual host alone")
			}
			domains[domain] = host.GetName()
		}
	}
}

// defaultMaxBody is Envoy's default limit for the body of a direct response, in bytes.
const defaultMaxBody = 4096

// bodies checks that no direct response is longer than its route configuration allows.
func (c *checker) bodies(p place, r *routev3.RouteConfiguration) {
	if p.partial {
		return
	}
	most := uint32(defaultMaxBody)
	if r.GetMaxDirectResponseBodySizeBytes() != nil {
		most = r.GetMaxDirectResponseBodySizeBytes().GetValue()
	}
	for _, host := range r.GetVirtualHosts() {
		for _, route := range host.GetRoutes() {
			body := route.GetDirectResponse().GetBody()
			if n := len(body.GetInlineString()) + len(body.GetInlineBytes()); n > int(most) {
				c.invalid(c.at(p, "max_direct_response_body_size_bytes"), fmt.Sprintf("is %d, and the body of a direct response of the virtual host %q has %d bytes", most, host.GetName(), n), "")
				return
			}
		}
	}
}

func sortedKeys(m protoreflect.Map) []string {
	keys := map[string]bool{}
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys[k.String()] = true
		return true
	})
	return slices.SortedFunc(maps.Keys(keys), cmp.Compare[string])
}
