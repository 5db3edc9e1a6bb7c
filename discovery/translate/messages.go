package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

var (
	yes        = wrapperspb.Bool(true)
	no         = wrapperspb.Bool(false)
	noDuration = durationpb.New(0)
)

// pack wraps a message, the same bytes each time. Messages made here always marshal; a failure is a broken program.
func pack(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic("translate: marshal " + string(m.ProtoReflect().Descriptor().FullName()) + ": " + err.Error())
	}
	return out
}

func u32(n uint32) *wrapperspb.UInt32Value { return wrapperspb.UInt32(n) }

// positive wraps a number that means nothing when it is not positive.
func positive[N int32 | uint32](n N) *wrapperspb.UInt32Value {
	if n <= 0 {
		return nil
	}
	return u32(uint32(n))
}

func socketAddress(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

func pipeAddress(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// overADS asks for a resource on the stream that everything else comes by, for as long as it takes.
func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   noDuration,
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

// istioMetadata is the filter metadata that Istio's telemetry, and people's EnvoyFilters, look at.
func istioMetadata(fields map[string]*structpb.Value) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"istio": {Fields: fields}}}
}

// madeFrom says which resource a message comes from, in metadata.
func madeFrom(r *kinds.Resource) *corev3.Metadata {
	return istioMetadata(map[string]*structpb.Value{"config": structpb.NewStringValue(resourcePath(r))})
}

// resourcePath is /apis/networking.istio.io/v1/namespaces/default/virtual-service/reviews.
func resourcePath(r *kinds.Resource) string {
	return "/apis/" + r.Kind.Group + "/" + r.Kind.Versions[0] + "/namespaces/" + r.Namespace + "/" + kebab(r.Kind.Name) + "/" + r.Name
}

// kebab writes VirtualService as virtual-service.
func kebab(name string) string {
	out := make([]rune, 0, len(name)+4)
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				out = append(out, '-')
			}
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}

// serviceMetadata names a service, for telemetry.
func serviceMetadata(s *mesh.Service) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"host":      structpb.NewStringValue(s.Hostname),
		"name":      structpb.NewStringValue(s.Hostname),
		"namespace": structpb.NewStringValue(s.Namespace),
	}})
}
