package ads

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/limits"
)

// Of its sixty kilobytes about itself an Envoy has all but two on what it is made of, of which nobody here makes any use. When hundreds come
// at once, as they do after a restart, it is not even decoded.

// The fields in which requests have a node, and a node its extensions.
const (
	deltaNode      protowire.Number = 1
	sotwNode       protowire.Number = 2
	nodeExtensions protowire.Number = 9
)

// leanDelta is a request whose node comes without its extensions.
type leanDelta struct {
	*discoveryv3.DeltaDiscoveryRequest
	*limits.Admission
}

// Decode is called by the servers of package rpc.
func (l leanDelta) Decode(data []byte) error {
	return l.Decoded(data, func() error { return proto.Unmarshal(withoutExtensions(data, deltaNode), l.DeltaDiscoveryRequest) })
}

// leanSotW is the same of the other form.
type leanSotW struct {
	*discoveryv3.DiscoveryRequest
	*limits.Admission
}

// Decode is called by the servers of package rpc.
func (l leanSotW) Decode(data []byte) error {
	return l.Decoded(data, func() error { return proto.Unmarshal(withoutExtensions(data, sotwNode), l.DiscoveryRequest) })
}

// withoutExtensions is a request without the extensions of its node.
func withoutExtensions(request []byte, node protowire.Number) []byte {
	return withField(request, node, func(content []byte) []byte {
		return withField(content, nodeExtensions, func([]byte) []byte { return nil })
	})
}

// withField is a message with something else in a field, or without the field where that is nil. What is no message stays as it is, to
// be refused by who decodes it.
func withField(message []byte, number protowire.Number, change func(content []byte) []byte) []byte {
	var out []byte
	same := 0 // up to where nothing had to be copied yet
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
