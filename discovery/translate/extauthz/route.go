package extauthz

import (
	"cmp"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// RouteFilter is the name of the filter for which a route says whom to ask. A route of Envoy's filter
// that asks cannot say which headers the service is told, so each route brings a whole one, and the
// listener has the place for it.
const RouteFilter = "pgmesh.external_auth"

// Place is that filter. It does nothing for routes that bring none.
var Place = message.HTTPFilter(RouteFilter, &compositev3.Composite{})

// longestAnswer is how long a service may take.
const longestAnswer = 10 * time.Second

// OfRoute is what a route has for RouteFilter: to ask a service, by its cluster. A chain of several filters
// would not do: Envoy 1.40 goes on behind the place when the first of them has its answer.
func OfRoute(by *gatewayapi.Authorization, cluster string) *anypb.Any {
	return message.Pack(&compositev3.CompositePerRoute{Matcher: &xdsmatcherv3.Matcher{
		OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{Action: &xdscorev3.TypedExtensionConfig{
			Name: "ask",
			TypedConfig: message.Pack(&compositev3.ExecuteFilterAction{TypedConfig: &corev3.TypedExtensionConfig{
				Name: Filter, TypedConfig: message.Pack(filterOf(by, cluster)),
			}}),
		}}},
	}})
}

// filterOf is the filter that asks for a route.
func filterOf(by *gatewayapi.Authorization, cluster string) *httpauthzv3.ExtAuthz {
	service := Service{Cluster: cluster, Host: by.Host, Timeout: durationpb.New(min(cmp.Or(by.Timeout, longestAnswer), longestAnswer))}
	var out *httpauthzv3.ExtAuthz
	if by.GRPC {
		out = OverGRPC(service.GRPC())
	} else {
		asked := service.HTTP(by.Path)
		asked.AuthorizationResponse = &httpauthzv3.AuthorizationResponse{AllowedUpstreamHeaders: cmp.Or(Headers(by.Taken), anyHeader())}
		out = OverHTTP(asked)
		out.DecoderHeaderMutationRules = ofRequests
	}
	out.AllowedHeaders = Headers(by.Told)
	if by.Body > 0 {
		out.WithRequestBody = &httpauthzv3.BufferSettings{MaxRequestBytes: by.Body, PackAsBytes: by.GRPC}
	}
	return out
}

// ofRequests keeps those headers of an answer out of requests that say something of the answer alone:
// where it is from, how long its body is, what becomes of its connection.
var ofRequests = &mutationv3.HeaderMutationRules{
	DisallowSystem: message.Yes,
	DisallowExpression: &matcherv3.RegexMatcher{
		Regex: "host|content-.*|transfer-encoding|connection|keep-alive|proxy-connection|te|trailer|upgrade",
	},
}
