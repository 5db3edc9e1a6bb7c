package tracing

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"go.opentelemetry.io/otel/trace"
)

// Trace is that of one revision. A nil one records nothing.
type Trace struct {
	tracer   *Tracer
	mesh     string
	revision int64
	id       trace.TraceID
	root     trace.SpanID
}

// Of returns the trace of a revision; nil if it is not traced. Without the id of its mesh a revision
// has none, as those of different meshes would be mixed up.
func (t *Tracer) Of(mesh string, revision int64) *Trace {
	if t == nil || mesh == "" || revision <= 0 {
		return nil
	}
	c := &Trace{tracer: t, mesh: mesh, revision: revision}
	c.id, c.root = ids(mesh, revision)
	if !chosen(c.id, t.share) {
		return nil
	}
	return c
}

// ids are those of a revision's trace and of its first span. The function mesh.trace_id of SQL says
// the same.
func ids(mesh string, revision int64) (id trace.TraceID, root trace.SpanID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "pgmesh trace %s %d", mesh, revision))
	copy(id[:], sum[:16])
	copy(root[:], sum[16:])
	return id, root
}

// chosen decides by the id, as OpenTelemetry's own sampler by ratio does.
func chosen(id trace.TraceID, share float64) bool {
	return share >= 1 || binary.BigEndian.Uint64(id[8:])>>1 < uint64(share*(1<<63))
}

// SpanID is that of a span that several programs know by its key.
func (c *Trace) SpanID(key string) (id trace.SpanID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s", c.id, key))
	copy(id[:], sum[:])
	return id
}

// ID is the trace's, in hexadecimal.
func (c *Trace) ID() string { return c.id.String() }

// Revision is that which is traced.
func (c *Trace) Revision() int64 { return c.revision }

// context is that of a span of this trace.
func (c *Trace) context(span trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: c.id, SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true})
}
