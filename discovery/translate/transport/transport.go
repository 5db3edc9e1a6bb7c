// Package transport makes transport sockets, by which Envoy secures connections: TLS as client and
// as server, plaintext, and the PROXY header before either.
package transport

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// TLS is the socket of a client's or a server's context.
func TLS(context proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: message.Pack(context)},
	}
}

func plaintext() *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.raw_buffer",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: message.Pack(&rawbufferv3.RawBuffer{})},
	}
}

// combined checks the other side by roots that Envoy asks for, and by more that is known here.
func combined(roots *tlsv3.SdsSecretConfig, more *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext: more, ValidationContextSdsSecretConfig: roots,
		},
	}
}

// oneOf matches one of several names, of whatever sort.
func oneOf(names []string) []*matcherv3.StringMatcher {
	out := make([]*matcherv3.StringMatcher, len(names))
	for i, name := range names {
		out[i] = message.Exactly(name)
	}
	return out
}
