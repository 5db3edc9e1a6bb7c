package kinds

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/kit/wellformed"
)

// Envelope is a resource received over MCP whose body has not been decoded yet. A resource that
// travels without an envelope has only a body.
type Envelope struct {
	Name, Version       string
	Labels, Annotations map[string]string
	Body                Body

	created timestamp
}

// Body is a google.protobuf.Any. TypeURL and Value alias the bytes that it was read from.
type Body struct {
	TypeURL, Value []byte
	Present        bool // whether the body was present, even if empty
}

// timestamp is a google.protobuf.Timestamp.
type timestamp struct {
	seconds int64
	nanos   int32
	present bool
}

const envelopeName = "istio.mcp.v1alpha1.Resource"

var envelopeShape = sync.OnceValue(func() *wellformed.Shape { return wellformed.Of((&mcp.Resource{}).ProtoReflect().Descriptor()) })

// Open unwraps what a response carries for a resource. Without an envelope, the result has only a
// body.
func Open(body Body) (Envelope, error) {
	if !isOf(body.TypeURL, envelopeName) {
		return Envelope{Body: body}, nil
	}
	return OpenEnvelope(body.Value)
}

// OpenEnvelope reads an encoded mcp.Resource. The body aliases these bytes. Everything else is
// copied, in one allocation.
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

// envelopeOf converts a decoded message.
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

// Metadata returns the metadata as MCP's message.
func (e *Envelope) Metadata() *mcp.Metadata {
	m := &mcp.Metadata{Name: e.Name, Version: e.Version, Labels: e.Labels, Annotations: e.Annotations}
	if e.created.present {
		m.CreateTime = e.created.message()
	}
	return m
}

// The functions below follow protobuf's rules for a field that comes more than once: the last
// scalar wins, and messages merge. A field of an unexpected wire type counts as an unknown field.

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

// Read merges an encoded google.protobuf.Any, which must be well formed, into b.
func (b *Body) Read(encoded []byte) {
	b.Present = true
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
	t.present = true
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

// time returns the zero time if the envelope has none.
func (t *timestamp) time() (time.Time, error) {
	if !t.present {
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
