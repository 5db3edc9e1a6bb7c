package extension

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tcpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// Phases are filters by where traffic passes them: before tokens are checked, before it is judged,
// or after both.
type Phases[F any] struct{ Authn, Authz, Late []F }

// OnRequests are the filters that read the requests in some traffic.
func OnRequests(all []*mesh.Extension, t mesh.Traffic) Phases[*hcmv3.HttpFilter] {
	return phased(all, t, true, func(e *mesh.Extension) *hcmv3.HttpFilter {
		return &hcmv3.HttpFilter{Name: e.Name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: discovered(e, passRequests)}}
	})
}

// OnConnections are the filters that read the bytes of some traffic, be they requests or not.
func OnConnections(all []*mesh.Extension, t mesh.Traffic) Phases[*listenerv3.Filter] {
	return phased(all, t, false, func(e *mesh.Extension) *listenerv3.Filter {
		return &listenerv3.Filter{Name: e.Name, ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: discovered(e, passConnections)}}
	})
}

func phased[F any](all []*mesh.Extension, t mesh.Traffic, requests bool, filter func(*mesh.Extension) F) (out Phases[F]) {
	var last []F
	for _, e := range all {
		if e.OnRequests() != requests || !e.Matches(t) {
			continue
		}
		switch e.Spec.GetPhase() {
		case extensions.TrafficExtension_AUTHN:
			out.Authn = append(out.Authn, filter(e))
		case extensions.TrafficExtension_AUTHZ:
			out.Authz = append(out.Authz, filter(e))
		case extensions.TrafficExtension_STATS:
			out.Late = append(out.Late, filter(e))
		case extensions.TrafficExtension_UNSPECIFIED:
			last = append(last, filter(e))
		}
	}
	out.Late = append(out.Late, last...)
	return out
}

// All lists the filters as traffic passes them where nothing judges it.
func (p Phases[F]) All() []F {
	if len(p.Authn)+len(p.Authz) == 0 {
		return p.Late
	}
	out := make([]F, 0, len(p.Authn)+len(p.Authz)+len(p.Late))
	return append(append(append(out, p.Authn...), p.Authz...), p.Late...)
}

// What stands in for a module that is not at hand, and lets everything pass. A mesh-agent that
// cannot fetch a module answers with such a filter too, or with one that refuses everything.
var (
	passRequests    = &httprbacv3.RBAC{RulesStatPrefix: "wasm-default-allow"}
	passConnections = &tcprbacv3.RBAC{StatPrefix: "wasm-default-allow"}
)

// configTimeout is how long a new listener waits for the configuration of a filter, if the one
// before it serves meanwhile or not. It is longer than an agent takes for a module (moduleTimeout),
// which then answers itself.
const configTimeout = moduleTimeout + 10*time.Second

// discovered says what the configuration of a filter may be. After configTimeout traffic passes, if
// the extension fails open; else requests are answered with 500, and connections end.
func discovered(e *mesh.Extension, pass proto.Message) *corev3.ExtensionConfigSource {
	source := message.OverADS()
	source.InitialFetchTimeout = durationpb.New(configTimeout)
	out := &corev3.ExtensionConfigSource{ConfigSource: source, TypeUrls: implementations(e)}
	if e.FailsOpen() {
		out.DefaultConfig = message.Pack(pass)
	}
	return out
}

// implementations are the types that a configuration may have. An extension may become a script from
// a module, and the other way around.
func implementations(e *mesh.Extension) []string {
	if e.OnRequests() {
		return []string{typeOf(passRequests), typeOf(&httpwasmv3.Wasm{}), typeOf(&luav3.Lua{})}
	}
	return []string{typeOf(passConnections), typeOf(&tcpwasmv3.Wasm{})}
}

func typeOf(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}
