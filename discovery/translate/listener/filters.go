package listener

import (
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// What filter chains are told apart by: the transport protocols that the TLS inspector reports.
const (
	TLS       = "tls"
	RawBuffer = "raw_buffer"
)

// PlaintextHTTP are the application protocols that the HTTP inspector reports of requests in clear
// text.
var PlaintextHTTP = []string{"http/1.1", "h2c"}

// MeshProtocols are the application protocols that sidecars offer to each other in mutual TLS.
var MeshProtocols = []string{"istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"}

// The listener filters.
var (
	// TLSInspector starts with a small buffer: a client hello is short.
	TLSInspector  = message.ListenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{InitialReadBufferSize: wrapperspb.UInt32(512)})
	HTTPInspector = message.ListenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{})
	// ProxyProtocol reads whose connection a load balancer passes on.
	ProxyProtocol       = message.ListenerFilter("envoy.filters.listener.proxy_protocol", &proxyprotocolv3.ProxyProtocol{})
	OriginalDestination = message.ListenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{})
	// OriginalSource marks its sockets, so that the redirection rules know them.
	OriginalSource = message.ListenerFilter("envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: 1337})
)
