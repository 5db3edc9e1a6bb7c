package authorization

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	tcpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/translate/extauthz"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// askingTimeout is how long an authorizer may take unless its provider says otherwise.
var askingTimeout = durationpb.New(10 * time.Minute)

func (a authorizer) cluster() string { return naming.Cluster(a.Port, "", a.Host) }

// httpConfig is how the authorizer is asked about requests.
func (a authorizer) httpConfig() *httpauthzv3.ExtAuthz {
	if p := a.Provider.GetEnvoyExtAuthzHttp(); p != nil {
		return a.overHTTP(p)
	}
	p := a.Provider.GetEnvoyExtAuthzGrpc()
	out := extauthz.OverGRPC(a.service(p.GetTimeout()).GRPC())
	out.StatusOnError = statusOf(p.GetStatusOnError())
	out.FailureModeAllow = p.GetFailOpen()
	out.ClearRouteCache = p.GetClearRouteCache()
	out.WithRequestBody = bodyOf(p.GetIncludeRequestBodyInCheck())
	return out
}

// tcpConfig is how it is asked about connections.
func (a authorizer) tcpConfig() *tcpauthzv3.ExtAuthz {
	p := a.Provider.GetEnvoyExtAuthzGrpc()
	return &tcpauthzv3.ExtAuthz{
		StatPrefix: rbacStats, GrpcService: a.service(p.GetTimeout()).GRPC(), TransportApiVersion: corev3.ApiVersion_V3, FailureModeAllow: p.GetFailOpen(),
	}
}

func (a authorizer) service(timeout *durationpb.Duration) extauthz.Service {
	return extauthz.Service{Cluster: a.cluster(), Host: a.Host, Timeout: cmp.Or(timeout, askingTimeout)}
}

func (a authorizer) overHTTP(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider) *httpauthzv3.ExtAuthz {
	included := p.GetIncludeRequestHeadersInCheck()
	if len(included) == 0 {
		included = p.GetIncludeHeadersInCheck() //nolint:staticcheck // what older MeshConfigs say
	}
	service := a.service(p.GetTimeout()).HTTP(p.GetPathPrefix())
	for _, name := range slices.Sorted(maps.Keys(p.GetIncludeAdditionalHeadersInCheck())) {
		if service.AuthorizationRequest == nil {
			service.AuthorizationRequest = &httpauthzv3.AuthorizationRequest{}
		}
		service.AuthorizationRequest.HeadersToAdd = append(service.AuthorizationRequest.HeadersToAdd,
			&corev3.HeaderValue{Key: name, Value: p.GetIncludeAdditionalHeadersInCheck()[name]})
	}
	answer := &httpauthzv3.AuthorizationResponse{
		AllowedUpstreamHeaders:        headersNamed(p.GetHeadersToUpstreamOnAllow()),
		AllowedClientHeaders:          headersNamed(p.GetHeadersToDownstreamOnDeny()),
		AllowedClientHeadersOnSuccess: headersNamed(p.GetHeadersToDownstreamOnAllow()),
	}
	if answer.GetAllowedUpstreamHeaders() != nil || answer.GetAllowedClientHeaders() != nil || answer.GetAllowedClientHeadersOnSuccess() != nil {
		service.AuthorizationResponse = answer
	}
	out := extauthz.OverHTTP(service)
	out.StatusOnError = statusOf(p.GetStatusOnError())
	out.FailureModeAllow = p.GetFailOpen()
	out.ClearRouteCache = p.GetClearRouteCache()
	out.AllowedHeaders = headersNamed(included)
	out.WithRequestBody = bodyOf(p.GetIncludeRequestBodyInCheck())
	return out
}

// headersNamed asks for headers by names that may begin or end with "*". It is nil if there are
// none.
func headersNamed(names []string) *matcherv3.ListStringMatcher {
	if len(names) == 0 {
		return nil
	}
	out := &matcherv3.ListStringMatcher{}
	for _, name := range names {
		m := message.Exactly(name)
		if end, isEnd := strings.CutPrefix(name, "*"); isEnd {
			m = message.EndingWith(end)
		} else if begin, isBegin := strings.CutSuffix(name, "*"); isBegin {
			m = message.BeginningWith(begin)
		}
		m.IgnoreCase = true
		out.Patterns = append(out.Patterns, m)
	}
	return out
}

// statusOf is what clients are answered when the authorizer does not answer. Nil means 403.
func statusOf(text string) *typev3.HttpStatus {
	code, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil
	}
	return &typev3.HttpStatus{Code: typev3.StatusCode(code)}
}

func bodyOf(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody) *httpauthzv3.BufferSettings {
	if p == nil {
		return nil
	}
	return &httpauthzv3.BufferSettings{
		MaxRequestBytes: p.GetMaxRequestBytes(), AllowPartialMessage: p.GetAllowPartialMessage(), PackAsBytes: p.GetPackAsBytes(),
	}
}
