package filter

import (
	"cmp"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// istioEnvoy is what answers name as their server, except those that a sidecar gives its own
// application.
const istioEnvoy = "istio-envoy"

// applyHeaders sets which headers of its own the proxy adds to answers and requests.
func applyHeaders(v view.View, m *hcmv3.HttpConnectionManager) {
	headers := v.ProxyConfig().GetProxyHeaders()
	if headers.GetServer().GetDisabled().GetValue() {
		m.ServerHeaderTransformation = hcmv3.HttpConnectionManager_PASS_THROUGH
	} else {
		m.ServerName = headers.GetServer().GetValue()
	}
	if headers.GetRequestId().GetDisabled().GetValue() {
		m.GenerateRequestId = message.No
	}
	m.AppendXForwardedPort = headers.GetXForwardedPort().GetEnabled().GetValue()
	if headers.GetEnvoyDebugHeaders().GetDisabled().GetValue() {
		m.HttpFilters[len(m.GetHttpFilters())-1] = quietRouterFilter
	}
}

// nameServer has answers name the server even if the configuration does not mention it.
func nameServer(m *hcmv3.HttpConnectionManager) {
	if m.GetServerHeaderTransformation() != hcmv3.HttpConnectionManager_PASS_THROUGH {
		m.ServerName = cmp.Or(m.GetServerName(), istioEnvoy)
	}
}

// describeClients tells the local application of the certificates that clients showed. For routers
// the topology says that.
func describeClients(v view.View, m *hcmv3.HttpConnectionManager) {
	headers := v.ProxyConfig().GetProxyHeaders()
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_APPEND_FORWARD
	if how, said := forwardings[headers.GetForwardedClientCert()]; said {
		m.ForwardClientCertDetails = how
	}
	shown := headers.GetSetCurrentClientCertDetails()
	m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
		Subject: wrapperspb.Bool(unlessFalse(shown.GetSubject())),
		Uri:     unlessFalse(shown.GetUri()), Dns: unlessFalse(shown.GetDns()),
		Cert: shown.GetCert().GetValue(), Chain: shown.GetChain().GetValue(),
	}
}

func unlessFalse(b *wrapperspb.BoolValue) bool { return b == nil || b.GetValue() }

var forwardings = map[meshconfig.ForwardClientCertDetails]hcmv3.HttpConnectionManager_ForwardClientCertDetails{
	meshconfig.ForwardClientCertDetails_SANITIZE:            hcmv3.HttpConnectionManager_SANITIZE,
	meshconfig.ForwardClientCertDetails_FORWARD_ONLY:        hcmv3.HttpConnectionManager_FORWARD_ONLY,
	meshconfig.ForwardClientCertDetails_APPEND_FORWARD:      hcmv3.HttpConnectionManager_APPEND_FORWARD,
	meshconfig.ForwardClientCertDetails_SANITIZE_SET:        hcmv3.HttpConnectionManager_SANITIZE_SET,
	meshconfig.ForwardClientCertDetails_ALWAYS_FORWARD_ONLY: hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY,
}
