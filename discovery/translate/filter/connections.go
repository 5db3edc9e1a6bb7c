package filter

import (
	"cmp"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

type (
	connectionSettings = meshconfig.ProxyConfig_ConnectionSettings
	underscoresAction  = meshconfig.ProxyConfig_ConnectionSettings_HeadersWithUnderscoresAction
	slashesAction      = meshconfig.ProxyConfig_ConnectionSettings_PathWithEscapedSlashesAction
)

// applyConnectionSettings sets what they name. They count before what the mesh says of paths.
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
