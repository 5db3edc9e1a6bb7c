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

// unwrapped is a resource without its envelope, whose body is not decoded yet.
type unwrapped struct {
	kind     *kinds.Kind
	name     string // without a leading slash; empty if unknown
	server   string // the server's version, if it sends one
	envelope kinds.Envelope
	item     item
}

// unwrap removes the envelope of a resource, if it has one.
func unwrap(kind *kinds.Kind, it item) (o unwrapped, err error) {
	o = unwrapped{kind: kind, item: it}
	if it.envelope {
		o.envelope, err = kinds.OpenEnvelope(it.body.Value)
	} else {
		o.envelope, err = kinds.Open(it.body)
	}
	outside, inside := trimSlash(it.name), trimSlash(o.envelope.Name)
	switch {
	case inside != "" && (len(outside) == 0 || string(outside) == inside):
		o.name = inside // this string does not alias the received buffer
	case kind.Bare && len(outside) == 0:
		o.name = kinds.MeshNamespace + "/" + strings.ToLower(kind.Name) // the name that istiod uses
	default:
		o.name = string(outside)
	}
	if o.server = o.envelope.Version; len(it.version) > 0 && string(it.version) != o.server {
		o.server = string(it.version)
	}
	if err != nil {
		return o, fmt.Errorf("decode %s %s from MCP: the envelope: %w", kind, o.name, err)
	}
	if inside != "" && o.name != inside {
		return o, fmt.Errorf("decode %s %s from MCP: in its envelope it is called %q", kind, o.name, inside)
	}
	return o, nil
}

// trimSlash returns "/name" as "name".
func trimSlash[T ~string | ~[]byte](name T) T {
	if len(name) > 0 && name[0] == '/' {
		return name[1:]
	}
	return name
}

// decode decodes the resource.
func (o *unwrapped) decode() (*kinds.Resource, error) { return o.envelope.Resource(o.kind, o.name) }

// sent returns what a DiscoveryResponse carries for the resource, byte for byte.
func (o *unwrapped) sent() *anypb.Any {
	body := o.item.any()
	if o.item.envelope {
		body.TypeUrl = envelopeType
	}
	return body
}

const envelopeType = "type.googleapis.com/istio.mcp.v1alpha1.Resource"

// digest is a hash of everything in a resource except its name and version.
type digest [16]byte

// digest tells content apart for servers whose versions do not: some send none, some count from the
// same number after a restart, and some change the content without changing the version.
func (o *unwrapped) digest() digest {
	m := o.envelope.Metadata()
	m.Name, m.Version = "", ""
	// Labels have no fixed order on the wire.
	metadata, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	hash := sha256.New()
	hash.Write(binary.AppendUvarint(nil, uint64(len(metadata))))
	hash.Write(metadata)
	hash.Write(o.envelope.Body.TypeURL)
	hash.Write([]byte{0})
	hash.Write(o.envelope.Body.Value)
	return digest(hash.Sum(nil)[:16])
}

// String returns the version as Change has it.
func (v *version) String() string {
	if v.server == "" {
		return hex.EncodeToString(v.content[:])
	}
	return v.server
}
