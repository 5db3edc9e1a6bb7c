package scoped

import (
	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// Envoy finds a scoped route configuration by the exact bytes of a header. All of a proxy's come to
// all of its listeners, so the key begins with the name of the routes; and the host in it is as the
// client wrote it. Where that finds no route, which is seldom, a filter looks for the host in lower
// case, and then for that of all other hosts. It is not even made for requests that have a route.

const (
	// scopeHeader has the key. Whatever a client says there is overwritten, and nobody behind the
	// proxy sees it.
	scopeHeader = "x-pgmesh-scope"

	scopeFilterName = "pgmesh.scope"
	knownField      = "known"
)

var (
	// Metadata makes Envoy look for the route by the new key, which alone would not tell whether
	// its virtual host is known.
	scopeFilter = message.HTTPFilter(scopeFilterName, &luav3.Lua{DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{
		InlineString: `function envoy_on_request(handle)
  local headers = handle:headers()
  local key = headers:get("` + scopeHeader + `")
  if not key then return end
  local routes, host = key:match("^([^/]*/)(.*)$")
  if host ~= host:lower() then
    headers:replace("` + scopeHeader + `", routes .. host:lower())
  end
  handle:metadata()
  if handle:virtualHost():metadata():get("` + knownField + `") then return end
  headers:replace("` + scopeHeader + `", routes .. "` + RestOfHosts + `")
end
`,
	}}})
	noScopeFilter = message.Pack(&routev3.FilterConfig{Disabled: true})
)

// RouteBy has requests routed by the part of a route configuration that is for their host.
func RouteBy(m *hcmv3.HttpConnectionManager, configuration string) {
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: scopedRoutes}
	m.EarlyHeaderMutationExtensions = append(m.EarlyHeaderMutationExtensions, &corev3.TypedExtensionConfig{
		Name: "envoy.http.early_header_mutation.header_mutation",
		TypedConfig: message.Pack(&mutationv3.HeaderMutation{Mutations: []*mutationrulesv3.HeaderMutation{
			{Action: &mutationrulesv3.HeaderMutation_Remove{Remove: scopeHeader}},
			{Action: &mutationrulesv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: scopeHeader, Value: scopeKey(configuration, "%REQ(:AUTHORITY)%")},
				AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			}}},
		}}),
	})
	m.HttpFilters = append([]*hcmv3.HttpFilter{scopeFilter}, m.GetHttpFilters()...)
}

// scopedRoutes are the same in all listeners: then Envoy has what comes by them once. A port is no
// part of a request's host.
var scopedRoutes = &hcmv3.ScopedRoutes{
	Name:            "hosts",
	RdsConfigSource: message.OverADS(),
	ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
		Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
			HeaderValueExtractor: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
				Name: scopeHeader, ElementSeparator: ":",
				ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{Index: 0},
			},
		},
	}}},
	ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: message.OverADS()}},
}
