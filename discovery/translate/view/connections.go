package view

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// ConnectionSettings are limits and timeouts of connections to the proxy, or nil.
func (v View) ConnectionSettings() *meshconfig.ProxyConfig_ConnectionSettings {
	settings := cmp.Or(v.ProxyConfig().GetConnectionSettings(), v.Config.GetDefaultConfig().GetConnectionSettings())
	if settings.GetProfile() != meshconfig.ProxyConfig_ConnectionSettings_EDGE || v.Proxy.Type != mesh.Router {
		return settings
	}
	out := proto.CloneOf(settings)
	hardenEdge(out)
	return out
}

// hardenEdge fills in what Envoy's authors advise for proxies that strangers connect to:
// https://www.envoyproxy.io/docs/envoy/latest/configuration/best_practices/edge
func hardenEdge(s *meshconfig.ProxyConfig_ConnectionSettings) {
	s.ListenerPerConnectionBufferLimitBytes = cmp.Or(s.GetListenerPerConnectionBufferLimitBytes(), wrapperspb.Int32(32<<10))
	s.HttpIdleTimeout = cmp.Or(s.GetHttpIdleTimeout(), durationpb.New(time.Hour))
	s.HttpStreamIdleTimeout = cmp.Or(s.GetHttpStreamIdleTimeout(), durationpb.New(5*time.Minute))
	s.HttpRequestTimeout = cmp.Or(s.GetHttpRequestTimeout(), durationpb.New(5*time.Minute))
	s.HttpRequestHeadersTimeout = cmp.Or(s.GetHttpRequestHeadersTimeout(), durationpb.New(time.Minute))
	s.HttpMaxConcurrentStreams = cmp.Or(s.GetHttpMaxConcurrentStreams(), wrapperspb.Int32(100))
	s.Http2InitialStreamWindowSize = cmp.Or(s.GetHttp2InitialStreamWindowSize(), wrapperspb.Int32(64<<10))
	s.Http2InitialConnectionWindowSize = cmp.Or(s.GetHttp2InitialConnectionWindowSize(), wrapperspb.Int32(1<<20))
	s.HttpMergeSlashes = cmp.Or(s.GetHttpMergeSlashes(), wrapperspb.Bool(true))
	if s.GetHttpHeadersWithUnderscoresAction() == meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_UNSPECIFIED {
		s.HttpHeadersWithUnderscoresAction = meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_REJECT_REQUEST
	}
	if s.GetHttpPathWithEscapedSlashesAction() == meshconfig.ProxyConfig_ConnectionSettings_PATH_WITH_ESCAPED_SLASHES_UNSPECIFIED {
		s.HttpPathWithEscapedSlashesAction = meshconfig.ProxyConfig_ConnectionSettings_UNESCAPE_AND_REDIRECT
	}
}
