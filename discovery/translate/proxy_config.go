package translate

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

type (
	connectionSettings = meshconfig.ProxyConfig_ConnectionSettings
	underscoresAction  = meshconfig.ProxyConfig_ConnectionSettings_HeadersWithUnderscoresAction
	slashesAction      = meshconfig.ProxyConfig_ConnectionSettings_PathWithEscapedSlashesAction
)

// proxyConfig is the configuration that the proxy was started with, if it has one of its own, else that of the mesh.
func (v view) proxyConfig() *meshconfig.ProxyConfig {
	return orElse(v.proxy.Config, v.config.GetDefaultConfig())
}

// connectionSettings are limits and timeouts of connections to the proxy; nil where nothing is said.
func (v view) connectionSettings() *connectionSettings {
	settings := orElse(v.proxyConfig().GetConnectionSettings(), v.config.GetDefaultConfig().GetConnectionSettings())
	if settings.GetProfile() != meshconfig.ProxyConfig_ConnectionSettings_EDGE || v.proxy.Type != mesh.Router {
		return settings
	}
	out := proto.CloneOf(settings)
	hardenEdge(out)
	return out
}

// hardenEdge fills in what Envoy's authors advise for proxies that strangers connect to.
func hardenEdge(s *connectionSettings) {
	s.ListenerPerConnectionBufferLimitBytes = orElse(s.GetListenerPerConnectionBufferLimitBytes(), wrapperspb.Int32(32<<10))
	s.HttpIdleTimeout = orElse(s.GetHttpIdleTimeout(), durationpb.New(time.Hour))
	s.HttpStreamIdleTimeout = orElse(s.GetHttpStreamIdleTimeout(), durationpb.New(5*time.Minute))
	s.HttpRequestTimeout = orElse(s.GetHttpRequestTimeout(), durationpb.New(5*time.Minute))
	s.HttpRequestHeadersTimeout = orElse(s.GetHttpRequestHeadersTimeout(), durationpb.New(time.Minute))
	s.HttpMaxConcurrentStreams = orElse(s.GetHttpMaxConcurrentStreams(), wrapperspb.Int32(100))
	s.Http2InitialStreamWindowSize = orElse(s.GetHttp2InitialStreamWindowSize(), wrapperspb.Int32(64<<10))
	s.Http2InitialConnectionWindowSize = orElse(s.GetHttp2InitialConnectionWindowSize(), wrapperspb.Int32(1<<20))
	s.HttpMergeSlashes = orElse(s.GetHttpMergeSlashes(), wrapperspb.Bool(true))
	if s.GetHttpHeadersWithUnderscoresAction() == meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_UNSPECIFIED {
		s.HttpHeadersWithUnderscoresAction = meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_REJECT_REQUEST
	}
	if s.GetHttpPathWithEscapedSlashesAction() == meshconfig.ProxyConfig_ConnectionSettings_PATH_WITH_ESCAPED_SLASHES_UNSPECIFIED {
		s.HttpPathWithEscapedSlashesAction = meshconfig.ProxyConfig_ConnectionSettings_UNESCAPE_AND_REDIRECT
	}
}

// applyConnectionSettings sets what they name; they count before what the mesh says of paths.
func applyConnectionSettings(m *hcmv3.HttpConnectionManager, s *connectionSettings) {
	if s == nil {
		return
	}
	m.StreamIdleTimeout = orElse(s.GetHttpStreamIdleTimeout(), m.GetStreamIdleTimeout())
	m.RequestTimeout = s.GetHttpRequestTimeout()
	m.RequestHeadersTimeout = s.GetHttpRequestHeadersTimeout()
	m.DrainTimeout = s.GetHttpDrainTimeout()
	applyCommonSettings(m, s)
	applyHTTP2Settings(m, s)
	if s.GetHttpMergeSlashes() != nil {
		m.MergeSlashes = s.GetHttpMergeSlashes().GetValue()
	}
	if action, said := slashesActions[s.GetHttpPathWithEscapedSlashesAction()]; said {
		m.PathWithEscapedSlashesAction = action
	}
}

func applyCommonSettings(m *hcmv3.HttpConnectionManager, s *connectionSettings) {
	action, said := underscoresActions[s.GetHttpHeadersWithUnderscoresAction()]
	if !said && s.GetHttpIdleTimeout() == nil && s.GetHttpMaxConnectionDuration() == nil && s.GetHttpMaxStreamDuration() == nil {
		return
	}
	common := orElse(m.GetCommonHttpProtocolOptions(), &corev3.HttpProtocolOptions{})
	common.IdleTimeout = orElse(s.GetHttpIdleTimeout(), common.GetIdleTimeout())
	common.MaxConnectionDuration = s.GetHttpMaxConnectionDuration()
	common.MaxStreamDuration = s.GetHttpMaxStreamDuration()
	common.HeadersWithUnderscoresAction = action
	m.CommonHttpProtocolOptions = common
}

func applyHTTP2Settings(m *hcmv3.HttpConnectionManager, s *connectionSettings) {
	if s.GetHttpMaxConcurrentStreams() == nil && s.GetHttp2InitialStreamWindowSize() == nil && s.GetHttp2InitialConnectionWindowSize() == nil {
		return
	}
	http2 := orElse(m.GetHttp2ProtocolOptions(), &corev3.Http2ProtocolOptions{})
	http2.MaxConcurrentStreams = orElse(natural(s.GetHttpMaxConcurrentStreams()), http2.GetMaxConcurrentStreams())
	http2.InitialStreamWindowSize = orElse(natural(s.GetHttp2InitialStreamWindowSize()), http2.GetInitialStreamWindowSize())
	http2.InitialConnectionWindowSize = orElse(natural(s.GetHttp2InitialConnectionWindowSize()), http2.GetInitialConnectionWindowSize())
	m.Http2ProtocolOptions = http2
}

// natural is a number as Envoy has it; a negative one is no number.
func natural(n *wrapperspb.Int32Value) *wrapperspb.UInt32Value {
	if n == nil || n.GetValue() < 0 {
		return nil
	}
	return u32(uint32(n.GetValue()))
}

var underscoresActions = map[underscoresAction]corev3.HttpProtocolOptions_HeadersWithUnderscoresAction{
	meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_ALLOW:          corev3.HttpProtocolOptions_ALLOW,
	meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_REJECT_REQUEST: corev3.HttpProtocolOptions_REJECT_REQUEST,
	meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_DROP_HEADER:    corev3.HttpProtocolOptions_DROP_HEADER,
}

var slashesActions = map[slashesAction]hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction{
	meshconfig.ProxyConfig_ConnectionSettings_KEEP_UNCHANGED:        hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
	meshconfig.ProxyConfig_ConnectionSettings_REJECT_REQUEST:        hcmv3.HttpConnectionManager_REJECT_REQUEST,
	meshconfig.ProxyConfig_ConnectionSettings_UNESCAPE_AND_REDIRECT: hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT,
	meshconfig.ProxyConfig_ConnectionSettings_UNESCAPE_AND_FORWARD:  hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD,
}
