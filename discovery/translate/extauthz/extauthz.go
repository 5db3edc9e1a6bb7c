// Package extauthz has Envoy ask a service about requests before it lets them pass: about those that
// a rule matches, or about those of some routes.
package extauthz

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// Filter is what Envoy calls the filter that asks.
const Filter = "envoy.filters.http.ext_authz"

// Service is a service that is asked.
type Service struct {
	Cluster string
	Host    string
	Timeout *durationpb.Duration // for its answer
}

// GRPC asks it over gRPC.
func (s Service) GRPC() *corev3.GrpcService {
	out := message.GRPC(s.Cluster, s.Host)
	out.Timeout = s.Timeout
	return out
}

// HTTP asks it by requests whose path has a prefix before that of the request in question.
func (s Service) HTTP(pathPrefix string) *httpauthzv3.HttpService {
	return &httpauthzv3.HttpService{
		PathPrefix: pathPrefix,
		ServerUri: &corev3.HttpUri{
			Uri:              "http://" + s.Host, // Envoy wants one, and connects to the cluster
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: s.Cluster},
			Timeout:          s.Timeout,
		},
	}
}

// OverGRPC is the filter that asks over gRPC. Requests are refused if there is no answer.
func OverGRPC(service *corev3.GrpcService) *httpauthzv3.ExtAuthz {
	return &httpauthzv3.ExtAuthz{Services: &httpauthzv3.ExtAuthz_GrpcService{GrpcService: service}, TransportApiVersion: corev3.ApiVersion_V3}
}

// OverHTTP is the filter that asks over HTTP. Requests are refused if there is no answer.
func OverHTTP(service *httpauthzv3.HttpService) *httpauthzv3.ExtAuthz {
	return &httpauthzv3.ExtAuthz{Services: &httpauthzv3.ExtAuthz_HttpService{HttpService: service}, TransportApiVersion: corev3.ApiVersion_V3}
}

// Headers are those with some names, in which stars mean nothing; nil if there are none.
func Headers(names []string) *matcherv3.ListStringMatcher {
	if len(names) == 0 {
		return nil
	}
	out := &matcherv3.ListStringMatcher{}
	for _, name := range names {
		m := message.Exactly(name)
		m.IgnoreCase = true
		out.Patterns = append(out.Patterns, m)
	}
	return out
}

// anyHeader are all headers.
func anyHeader() *matcherv3.ListStringMatcher {
	return &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{message.Matching(".*")}}
}
