package translate

import (
	"cmp"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

type (
	connectionSettings = meshconfig.ProxyConfig_ConnectionSettings
	underscoresAction  = meshconfig.ProxyConfig_ConnectionSettings_HeadersWithUnderscoresAction
	slashesAction      = meshconfig.ProxyConfig_ConnectionSettings_PathWithEscapedSlashesAction
)

// connectionSettingsOf are limits and timeouts of connections to the proxy; nil where nothing is said.
func connectionSettingsOf(v view.View) *connectionSettings {
	settings := cmp.Or(v.ProxyConfig().GetConnectionSettings(), v.Config.GetDefaultConfig().GetConnectionSettings())
	if settings.GetProfile() != meshconfig.ProxyConfig_ConnectionSettings_EDGE || v.Proxy.Type != mesh.Router {
		return settings
	}
	out := proto.CloneOf(settings)
	hardenEdge(out)
	return out
}

// hardenEdge fills in what Envoy's authors advise for proxies that strangers connect to.
func hardenEdge(s *connectionSettings) {
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

// applyConnectionSettings sets what they name; they count before what the mesh says of paths.
func applyConnectionSettings(m *hcmv3.HttpConnectionManager, s *connectionSettings) {
	if s == nil {
		return
	}
	m.StreamIdleTimeout = cmp.Or(s.GetHttpStreamIdleTimeout(), m.GetStreamIdleTimeout())
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
	common := cmp.Or(m.GetCommonHttpProtocolOptions(), &corev3.HttpProtocolOptions{})
	common.IdleTimeout = cmp.Or(s.GetHttpIdleTimeout(), common.GetIdleTimeout())
	common.MaxConnectionDuration = s.GetHttpMaxConnectionDuration()
	common.MaxStreamDuration = s.GetHttpMaxStreamDuration()
	common.HeadersWithUnderscoresAction = action
	m.CommonHttpProtocolOptions = common
}

func applyHTTP2Settings(m *hcmv3.HttpConnectionManager, s *connectionSettings) {
	if s.GetHttpMaxConcurrentStreams() == nil && s.GetHttp2InitialStreamWindowSize() == nil && s.GetHttp2InitialConnectionWindowSize() == nil {
		return
	}
	http2 := cmp.Or(m.GetHttp2ProtocolOptions(), &corev3.Http2ProtocolOptions{})
	http2.MaxConcurrentStreams = cmp.Or(message.Natural(s.GetHttpMaxConcurrentStreams()), http2.GetMaxConcurrentStreams())
	http2.InitialStreamWindowSize = cmp.Or(message.Natural(s.GetHttp2InitialStreamWindowSize()), http2.GetInitialStreamWindowSize())
	http2.InitialConnectionWindowSize = cmp.Or(message.Natural(s.GetHttp2InitialConnectionWindowSize()), http2.GetInitialConnectionWindowSize())
	m.Http2ProtocolOptions = http2
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
