package wire

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/limits"
)

// An Envoy sends 60 KB about itself, of which all but 2 KB describe its extensions, which nobody
// here uses. The server skips them before decoding, because hundreds of Envoys come at once after a
// restart.

// Field numbers of the node in requests, and of the extensions in a node.
const (
	deltaNode      protowire.Number = 1
	sotwNode       protowire.Number = 2
	nodeExtensions protowire.Number = 9
)

// leanDelta decodes a delta request without its node's extensions.
type leanDelta struct {
	*discoveryv3.DeltaDiscoveryRequest
	*limits.Admission
}

// Decode is called by the servers of package rpc.
func (l leanDelta) Decode(data []byte) error {
	return l.Decoded(data, func() error { return proto.Unmarshal(withoutExtensions(data, deltaNode), l.DeltaDiscoveryRequest) })
}

// leanSotW decodes a state-of-the-world request without its node's extensions.
type leanSotW struct {
	*discoveryv3.DiscoveryRequest
	*limits.Admission
}

// Decode is called by the servers of package rpc.
func (l leanSotW) Decode(data []byte) error {
	return l.Decoded(data, func() error { return proto.Unmarshal(withoutExtensions(data, sotwNode), l.DiscoveryRequest) })
}

// withoutExtensions returns an encoded request without its node's extensions.
func withoutExtensions(request []byte, node protowire.Number) []byte {
	return withField(request, node, func(content []byte) []byte {
		return withField(content, nodeExtensions, func([]byte) []byte { return nil })
	})
}

// withField returns an encoded message with the content of a field changed, or without the field if
// change returns nil. It returns malformed input unchanged, for the decoder to refuse.
func withField(message []byte, number protowire.Number, change func(content []byte) []byte) []byte {
	var out []byte
	same := 0 // the end of what out already covers
	for rest := message; len(rest) > 0; {
		n, kind, length := protowire.ConsumeField(rest)
		if length < 0 {
			return message
		}
		if n == number && kind == protowire.BytesType {
			at := len(message) - len(rest)
			out = append(out, message[same:at]...)
			same = at + length
			_, _, tag := protowire.ConsumeTag(rest)
			content, _ := protowire.ConsumeBytes(rest[tag:])
			if content = change(content); content != nil {
				out = protowire.AppendBytes(append(out, rest[:tag]...), content)
			}
		}
		rest = rest[length:]
	}
	if same == 0 {
		return message
	}
	return append(out, message[same:]...)
}
