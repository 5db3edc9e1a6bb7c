package mcp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/kinds"
)

// opened is a resource out of its envelope, with its body still to be decoded.
type opened struct {
	kind     *kinds.Kind
	name     string // as the client knows it; empty if it cannot be told
	named    string // the server's own version of it, if it gives one
	envelope kinds.Envelope
	item     item
}

// open takes a resource out of its envelope, if it is in one.
func open(kind *kinds.Kind, it item) (o opened, err error) {
	o = opened{kind: kind, item: it}
	if it.envelope {
		o.envelope, err = kinds.OpenEnvelope(it.body.Value)
	} else {
		o.envelope, err = kinds.Open(it.body)
	}
	outside, inside := plain(it.name), plain(o.envelope.Name)
	switch {
	case inside != "" && (len(outside) == 0 || string(outside) == inside):
		o.name = inside // which is in memory that is kept
	case kind.Bare && len(outside) == 0:
		o.name = kinds.MeshNamespace + "/" + strings.ToLower(kind.Name) // as istiod calls it
	default:
		o.name = string(outside)
	}
	if o.named = o.envelope.Version; len(it.version) > 0 && string(it.version) != o.named {
		o.named = string(it.version)
	}
	if err != nil {
		return o, fmt.Errorf("decode %s %s from MCP: the envelope: %w", kind, o.name, err)
	}
	if inside != "" && o.name != inside {
		return o, fmt.Errorf("decode %s %s from MCP: in its envelope it is called %q", kind, o.name, inside)
	}
	return o, nil
}

// plain is the one form of the names "/name" and "name".
func plain[T ~string | ~[]byte](name T) T {
	if len(name) > 0 && name[0] == '/' {
		return name[1:]
	}
	return name
}

// decode makes the resource.
func (o *opened) decode() (*kinds.Resource, error) { return o.envelope.Resource(o.kind, o.name) }

// sent is what a DiscoveryResponse carries for the resource: what the server sent, byte for byte.
func (o *opened) sent() *anypb.Any {
	body := o.item.any()
	if o.item.envelope {
		body.TypeUrl = envelopeType
	}
	return body
}

const envelopeType = "type.googleapis.com/istio.mcp.v1alpha1.Resource"

// digest is a hash of everything about a resource but its name and version.
type digest [16]byte

// digest tells whether a resource is the same as before, whatever version it has: there are servers that give none, that
// count the same numbers anew after a restart, and that change what is inside without counting on.
func (o *opened) digest() digest {
	m := o.envelope.Metadata()
	m.Name, m.Version = "", ""
	// The order of labels on the wire is anybody's.
	metadata, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	hash := sha256.New()
	hash.Write(binary.AppendUvarint(nil, uint64(len(metadata))))
	hash.Write(metadata)
	hash.Write(o.envelope.Body.TypeURL)
	hash.Write([]byte{0})
	hash.Write(o.envelope.Body.Value)
	return digest(hash.Sum(nil)[:16])
}

// String is the version as the user of the client sees it.
func (v *version) String() string {
	if v.named == "" {
		return hex.EncodeToString(v.content[:])
	}
	return v.named
}
