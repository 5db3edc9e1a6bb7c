package kinds

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/wellformed"
)

// Envelope is a resource as it came over MCP, with its body still to be decoded. What travels without an envelope is one with a body alone.
type Envelope struct {
	Name, Version       string
	Labels, Annotations map[string]string
	Body                Body

	created timestamp
}

// Body is a google.protobuf.Any whose parts are those of the bytes that it was read from.
type Body struct {
	TypeURL, Value []byte
	Given          bool // there is one, if only an empty one
}

// timestamp is a google.protobuf.Timestamp.
type timestamp struct {
	seconds int64
	nanos   int32
	given   bool
}

const envelopeName = "istio.mcp.v1alpha1.Resource"

var envelopeShape = sync.OnceValue(func() *wellformed.Shape { return wellformed.Of((&mcp.Resource{}).ProtoReflect().Descriptor()) })

// Open takes what a response carries for a resource out of its envelope, if it is in one.
func Open(body Body) (Envelope, error) {
	if !isOf(body.TypeURL, envelopeName) {
		return Envelope{Body: body}, nil
	}
	return OpenEnvelope(body.Value)
}

// OpenEnvelope reads an encoded mcp.Resource. Its body is a part of these bytes; everything else is a copy, in one piece of memory.
func OpenEnvelope(encoded []byte) (e Envelope, err error) {
	if !envelopeShape().Takes(encoded) {
		m := &mcp.Resource{}
		if err := proto.Unmarshal(encoded, m); err != nil {
			return e, err
		}
		return envelopeOf(m), nil
	}
	for f := range wellformed.Fields(encoded) {
		switch {
		case f.IsBytes() && f.Number == 1:
			e.readMetadata(string(f.Bytes))
		case f.IsBytes() && f.Number == 2:
			e.Body.Read(f.Bytes)
		}
	}
	return e, nil
}

// envelopeOf has what a message has.
func envelopeOf(m *mcp.Resource) Envelope {
	metadata := m.GetMetadata()
	e := Envelope{Name: metadata.GetName(), Version: metadata.GetVersion(), Labels: metadata.GetLabels(), Annotations: metadata.GetAnnotations()}
	if t := metadata.GetCreateTime(); t != nil {
		e.created = timestamp{t.GetSeconds(), t.GetNanos(), true}
	}
	if body := m.GetBody(); body != nil {
		e.Body = Body{[]byte(body.GetTypeUrl()), body.GetValue(), true}
	}
	return e
}

// Metadata is what the envelope says of the resource.
func (e *Envelope) Metadata() *mcp.Metadata {
	m := &mcp.Metadata{Name: e.Name, Version: e.Version, Labels: e.Labels, Annotations: e.Annotations}
	if e.created.given {
		m.CreateTime = e.created.message()
	}
	return m
}

// Each of these reads what may come more than once, of which the last counts and what is inside adds up, as protobuf has it. A field
// whose type is another than it should be is one that nobody knows.

func (e *Envelope) readMetadata(encoded string) {
	for f := range wellformed.Fields(encoded) {
		if !f.IsBytes() {
			continue
		}
		switch f.Number {
		case 1:
			e.Name = f.Bytes
		case 2:
			e.created.read(f.Bytes)
		case 3:
			e.Version = f.Bytes
		case 4:
			e.Labels = withEntry(e.Labels, f.Bytes)
		case 5:
			e.Annotations = withEntry(e.Annotations, f.Bytes)
		}
	}
}

func withEntry(m map[string]string, encoded string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	var key, value string
	for f := range wellformed.Fields(encoded) {
		switch {
		case f.IsBytes() && f.Number == 1:
			key = f.Bytes
		case f.IsBytes() && f.Number == 2:
			value = f.Bytes
		}
	}
	m[key] = value
	return m
}

// Read takes in an encoded google.protobuf.Any, which must be well formed.
func (b *Body) Read(encoded []byte) {
	b.Given = true
	for f := range wellformed.Fields(encoded) {
		switch {
		case f.IsBytes() && f.Number == 1:
			b.TypeURL = f.Bytes
		case f.IsBytes() && f.Number == 2:
			b.Value = f.Bytes
		}
	}
}

func (t *timestamp) read(encoded string) {
	t.given = true
	for f := range wellformed.Fields(encoded) {
		switch {
		case f.IsVarint() && f.Number == 1:
			t.seconds = int64(f.Value)
		case f.IsVarint() && f.Number == 2:
			t.nanos = int32(f.Value)
		}
	}
}

func (t *timestamp) message() *timestamppb.Timestamp {
	return &timestamppb.Timestamp{Seconds: t.seconds, Nanos: t.nanos}
}

// time returns the zero time if none was given.
func (t *timestamp) time() (time.Time, error) {
	if !t.given {
		return time.Time{}, nil
	}
	usual := t.seconds >= 0 && t.seconds < 1<<33 && t.nanos >= 0 && t.nanos < 1e9 // from 1970 to 2242
	if !usual {
		if err := t.message().CheckValid(); err != nil {
			return time.Time{}, fmt.Errorf("create time: %w", err)
		}
	}
	return time.Unix(t.seconds, int64(t.nanos)).UTC(), nil
}
