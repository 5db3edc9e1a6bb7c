package kinds

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcp "istio.io/api/mcp/v1alpha1"
)

const (
	anyPrefix  = "type.googleapis.com/"
	structName = protoreflect.FullName("google.protobuf.Struct")
)

// MCP wraps the resource in the envelope of the Mesh Configuration Protocol. The body is encoded
// deterministically, so equal resources have equal bytes. The version should change exactly when
// the content does: istiod ignores an update whose version it already holds.
func (r *Resource) MCP(version string) (*mcp.Resource, error) {
	body, err := packAny(r.Spec.Message())
	if err != nil {
		return nil, fmt.Errorf("encode %s for MCP: %w", r.Key(), err)
	}
	metadata := &mcp.Metadata{
		Name:        r.Key().FullName(),
		Version:     version,
		Labels:      r.Labels,
		Annotations: r.Annotations,
	}
	// istiod takes a missing time for one in 1970.
	if !r.CreateTime.IsZero() {
		metadata.CreateTime = timestamppb.New(r.CreateTime)
	}
	return &mcp.Resource{Metadata: metadata, Body: body}, nil
}

// Any returns what a DiscoveryResponse carries for the resource: the packed envelope, or for a Bare
// kind the spec alone, without name, labels and version.
func (r *Resource) Any(version string) (*anypb.Any, error) {
	message := r.Spec.Message()
	if !r.Kind.Bare {
		envelope, err := r.MCP(version)
		if err != nil {
			return nil, err
		}
		message = envelope
	}
	wrapped, err := packAny(message)
	if err != nil {
		return nil, fmt.Errorf("encode %s for MCP: %w", r.Key(), err)
	}
	return wrapped, nil
}

// FromMCP unwraps a resource received over MCP. The envelope's own name wins over the given one,
// which delta responses carry beside the envelope. It has the form "namespace/name", "/name" or
// "name". FromMCP tolerates what other servers are known to leave out or add: create time, labels,
// unknown fields, and a Struct of JSON in place of the message.
func FromMCP(kind *Kind, name string, m *mcp.Resource) (*Resource, error) {
	e := envelopeOf(m)
	return e.Resource(kind, name)
}

// FromAny reverses Resource.Any. A Bare kind without a name gets the one that istiod uses for it,
// "istio-system/meshconfig". FromAny also takes a Bare kind in an envelope, and another kind
// without one if a name is given.
func FromAny(kind *Kind, name string, a *anypb.Any) (*Resource, error) {
	if kind.Bare && name == "" {
		name = MeshNamespace + "/" + strings.ToLower(kind.Name)
	}
	e, err := Open(Body{[]byte(a.GetTypeUrl()), a.GetValue(), a != nil})
	if err != nil {
		return nil, fmt.Errorf("decode %s %s from MCP: the envelope: %w", kind, name, err)
	}
	return e.Resource(kind, name)
}

// Resource decodes the resource, under the given name if the envelope has none. It copies the body.
func (e *Envelope) Resource(kind *Kind, name string) (*Resource, error) {
	if e.Name != "" {
		name = e.Name
	}
	r, err := fromBody(kind, name, &e.Body)
	if err != nil {
		return nil, err
	}
	r.Labels, r.Annotations = e.Labels, e.Annotations
	if r.Origin() != "" {
		r.Version = e.Version
	}
	if r.CreateTime, err = e.created.time(); err != nil {
		return nil, fmt.Errorf("decode %s from MCP: %w", r.Key(), err)
	}
	return r, nil
}

// fromBody decodes a spec and splits the name.
func fromBody(kind *Kind, name string, body *Body) (*Resource, error) {
	namespace, short, err := splitName(kind, name)
	if err != nil {
		return nil, err
	}
	// One allocation for both: there may be a million of them.
	r := &struct {
		Resource

		spec Spec
	}{Resource: Resource{Kind: kind, Namespace: namespace, Name: short}}
	r.Spec = &r.spec
	switch {
	case !body.Present:
		err = errNoBody
	case isOf(body.TypeURL, kind.message()):
		err = r.spec.setEncoded(kind, body.Value)
	case isOf(body.TypeURL, structName): // JSON, from a server that does not send the message itself
		r.spec.message, err = fromStruct(kind, body.Value)
	default:
		err = fmt.Errorf("its body is a %q, expected a %q", body.TypeURL, anyPrefix+kind.message())
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s from MCP: %w", r.Key(), err)
	}
	return &r.Resource, nil
}

var errNoBody = errors.New("it has no body")

// isOf reports whether a type URL names a message.
func isOf(typeURL []byte, message protoreflect.FullName) bool {
	begin := len(typeURL) - len(message)
	return begin >= 0 && string(typeURL[begin:]) == string(message) && (begin == 0 || typeURL[begin-1] == '/')
}

func fromStruct(kind *Kind, encoded []byte) (proto.Message, error) {
	tree := &structpb.Struct{}
	if err := proto.Unmarshal(encoded, tree); err != nil {
		return nil, err
	}
	spec, err := tree.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return kind.Decode(spec)
}

// splitName splits "namespace/name", "/name" or "name".
func splitName(kind *Kind, full string) (namespace, name string, err error) {
	namespace, name, found := strings.Cut(full, "/")
	if !found {
		namespace, name = "", full
	}
	if name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf(`decode a %s from MCP: its name is %q, expected "namespace/name"`, kind, full)
	}
	return namespace, name, nil
}

// packAny is anypb.New with deterministic encoding.
func packAny(m proto.Message) (*anypb.Any, error) {
	a := &anypb.Any{}
	return a, anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true})
}
