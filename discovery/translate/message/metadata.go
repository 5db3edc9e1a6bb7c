package message

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// Metadata is the filter metadata that Istio's telemetry, and people's EnvoyFilters, look at.
func Metadata(fields map[string]*structpb.Value) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"istio": {Fields: fields}}}
}

// MadeFrom says which resource a message comes from, in metadata.
func MadeFrom(r *kinds.Resource) *corev3.Metadata {
	return Metadata(map[string]*structpb.Value{"config": structpb.NewStringValue(PathOf(r))})
}

// PathOf is /apis/networking.istio.io/v1/namespaces/default/virtual-service/reviews.
func PathOf(r *kinds.Resource) string {
	return "/apis/" + r.Kind.Group + "/" + r.Kind.Versions[0] + "/namespaces/" + r.Namespace + "/" + kebab(r.Kind.Name) + "/" + r.Name
}

// ResourceAt reads the path that PathOf writes.
func ResourceAt(path string) (kinds.Key, bool) {
	parts := strings.Split(path, "/") // "", apis, GROUP, VERSION, namespaces, NAMESPACE, KIND, NAME
	if len(parts) != 8 {
		return kinds.Key{}, false
	}
	for _, kind := range kinds.All() {
		r := &kinds.Resource{Kind: kind, Namespace: parts[5], Name: parts[7]}
		if PathOf(r) == path {
			return r.Key(), true
		}
	}
	return kinds.Key{}, false
}

// kebab writes VirtualService as virtual-service.
func kebab(name string) string {
	out := make([]rune, 0, len(name)+4)
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 && (isSmall(name[i-1]) || i+1 < len(name) && isSmall(name[i+1])) { // HTTPRoute is http-route
				out = append(out, '-')
			}
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}

func isSmall(c byte) bool { return c >= 'a' && c <= 'z' }

// ServiceMetadata names a service, for telemetry.
func ServiceMetadata(s *mesh.Service) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"host":      structpb.NewStringValue(s.Hostname),
		"name":      structpb.NewStringValue(s.Hostname),
		"namespace": structpb.NewStringValue(s.Namespace),
	}})
}
