package mcp

import (
	"github.com/pgmesh/pgmesh/kinds"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// legacy is the first generation of the protocol, with the client as the sink of a ResourceSource.
//
// The first request for a collection on a stream asks for all of it, and the answer replaces what
// the client has. Only acknowledgements ask for increments. A source may or may not honour versions
// in the first request (Galley does not), and its answer does not tell which.
type legacy struct {
	stream  legacyv1.ResourceSource_EstablishResourceStreamClient
	sink    *legacyv1.SinkNode
	unknown *unknownCollections
	heard   map[string]bool // the collections answered on this stream
}

func newLegacy(stream legacyv1.ResourceSource_EstablishResourceStreamClient, id string, unknown *unknownCollections) *legacy {
	return &legacy{stream: stream, sink: &legacyv1.SinkNode{Id: id}, unknown: unknown, heard: map[string]bool{}}
}

func (*legacy) protocol() Protocol { return Legacy }

func (l *legacy) names(k *kinds.Kind) []string {
	if k.Collection == "" || l.unknown.has(k.Collection) {
		return nil
	}
	return []string{k.Collection}
}

func (l *legacy) send(r *request) error {
	return l.stream.Send(&legacyv1.RequestResources{
		SinkNode: l.sink, Collection: r.typeURL, ResponseNonce: r.nonce, ErrorDetail: r.failure,
		// After a refusal the source does not know what the sink has, so ask for everything.
		Incremental: r.answers() && r.failure == nil,
	})
}

func (l *legacy) recv() (*response, error) {
	m, err := legacyForm.receive(l.stream)
	if err != nil {
		return nil, l.unknown.notice(l.stream, err)
	}
	r, incremental := m.legacy()
	if len(l.heard) == 0 {
		l.unknown.from(versionOf(l.stream))
	}
	r.full = !incremental || !l.heard[r.typeURL]
	l.heard[r.typeURL] = true
	if r.full {
		r.removed = nil
	}
	return r, nil
}
