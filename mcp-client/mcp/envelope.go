package mcp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	mcpapi "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
)

// opened is a resource out of its envelope, with its body still to be decoded.
type opened struct {
	kind     *kinds.Kind
	name     string // as the client knows it; empty if it cannot be told
	named    string // the server's own version of it, if it gives one
	envelope *mcpapi.Resource
	body     *anypb.Any // of what travels without an envelope
}

// open takes a resource out of its envelope, if it is in one.
func open(kind *kinds.Kind, it item) (opened, error) {
	o := opened{kind: kind, name: plain(it.name), named: it.version, envelope: it.envelope, body: it.body}
	if kind.Bare && o.name == "" {
		o.name = "istio-system/" + strings.ToLower(kind.Name) // as istiod calls it
	}
	if o.envelope == nil && it.body.MessageIs((*mcpapi.Resource)(nil)) {
		envelope := &mcpapi.Resource{}
		if err := it.body.UnmarshalTo(envelope); err != nil {
			return o, fmt.Errorf("decode %s %s from MCP: the envelope: %w", kind, o.name, err)
		}
		o.envelope = envelope
	}
	if o.envelope == nil {
		return o, nil
	}
	inside := plain(o.envelope.GetMetadata().GetName())
	if it.name != "" && inside != "" && inside != o.name {
		return o, fmt.Errorf("decode %s %s from MCP: in its envelope it is called %q", kind, o.name, inside)
	}
	if inside != "" {
		o.name = inside
	}
	if o.named == "" {
		o.named = o.envelope.GetMetadata().GetVersion()
	}
	return o, nil
}

// plain is the one form of the names "/name" and "name".
func plain(name string) string { return strings.TrimPrefix(name, "/") }

// decode makes the resource.
func (o *opened) decode() (*kinds.Resource, error) {
	if o.envelope != nil {
		return kinds.FromMCP(o.kind, o.name, o.envelope)
	}
	return kinds.FromAny(o.kind, o.name, o.body)
}

// sent is what a DiscoveryResponse carries for the resource: what the server sent, byte for byte, where it sent one.
func (o *opened) sent() *anypb.Any {
	if o.body != nil {
		return o.body
	}
	body := &anypb.Any{}
	// It was received as a message, and so can be one again.
	_ = anypb.MarshalFrom(body, o.envelope, proto.MarshalOptions{Deterministic: true})
	return body
}

// digest is a hash of everything about a resource but its name and version.
type digest [16]byte

// digest tells whether a resource is the same as before, whatever version it has: there are servers that give none, that
// count the same numbers anew after a restart, and that change what is inside without counting on.
func (o *opened) digest() digest {
	hash, body := sha256.New(), o.body
	if o.envelope != nil {
		body = o.envelope.GetBody()
		m := o.envelope.GetMetadata()
		// The order of labels on the wire is anybody's.
		metadata, _ := proto.MarshalOptions{Deterministic: true}.Marshal(&mcpapi.Metadata{
			Labels: m.GetLabels(), Annotations: m.GetAnnotations(), CreateTime: m.GetCreateTime(),
		})
		hash.Write(binary.AppendUvarint(nil, uint64(len(metadata))))
		hash.Write(metadata)
	}
	hash.Write([]byte(body.GetTypeUrl()))
	hash.Write([]byte{0})
	hash.Write(body.GetValue())
	return digest(hash.Sum(nil)[:16])
}

// String is the version as the user of the client sees it.
func (v *version) String() string {
	if v.named == "" {
		return hex.EncodeToString(v.content[:])
	}
	return v.named
}
