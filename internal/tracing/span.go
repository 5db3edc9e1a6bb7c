package tracing

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgmesh/pgmesh/internal/kit/terse"
)

// Span is a part of a revision's way, which is over.
type Span struct {
	Name         string
	ID           trace.SpanID // one of chance if it is zero
	Parent       trace.SpanID // the commit if it is zero
	Began, Ended time.Time
	Attributes   []attribute.KeyValue
	Events       []Event
	Links        []trace.Link
	Failure      string // why it failed, if it did
}

// Event is a moment in a span.
type Event struct {
	Name       string
	At         time.Time
	Attributes []attribute.KeyValue
}

// Record records a span of this program.
func (c *Trace) Record(s Span) {
	if c == nil {
		return
	}
	if s.ID == (trace.SpanID{}) {
		s.ID = NewSpanID()
	}
	if s.Parent == (trace.SpanID{}) {
		s.Parent = c.root
	}
	ctx := trace.ContextWithSpanContext(context.Background(), c.context(s.Parent))
	c.record(ctx, c.tracer.own, s)
}

// RecordCommit records the first span of the trace: the transaction, as the database tells of it.
// Each program that reads the revision may do so. What they record is the same to the byte, so that
// whoever stores it can tell that it is one.
func (c *Trace) RecordCommit(s Span) {
	if c == nil {
		return
	}
	s.Name, s.ID = "commit", c.root
	c.record(context.Background(), c.tracer.database, s)
}

func (c *Trace) record(ctx context.Context, by trace.Tracer, s Span) {
	if s.Ended.Before(s.Began) { // clocks are set, and those of two machines differ
		s.Ended = s.Began
	}
	ctx = context.WithValue(ctx, givenKey{}, givenIDs{c.id, s.ID})
	attributes := append([]attribute.KeyValue{attribute.Int64(RevisionKey, c.revision), attribute.String(MeshKey, c.mesh)}, s.Attributes...)
	_, span := by.Start(ctx, s.Name, trace.WithTimestamp(s.Began), trace.WithAttributes(attributes...), trace.WithLinks(s.Links...))
	for _, e := range s.Events {
		span.AddEvent(e.Name, trace.WithTimestamp(e.At), trace.WithAttributes(bounded(e.Attributes)...))
	}
	if s.Failure != "" {
		span.SetStatus(codes.Error, terse.Kept(s.Failure, maxValueBytes))
	}
	span.End(trace.WithTimestamp(s.Ended))
}

// bounded shortens what the library leaves as it is: texts in attributes of events.
func bounded(attributes []attribute.KeyValue) []attribute.KeyValue {
	out := slices.Clone(attributes)
	for i, a := range out {
		if a.Value.Type() == attribute.STRING {
			out[i].Value = attribute.StringValue(terse.Kept(a.Value.AsString(), maxValueBytes))
		}
	}
	return out
}

// LinkTo returns a link to a span of this trace.
func (c *Trace) LinkTo(span trace.SpanID, about ...attribute.KeyValue) trace.Link {
	return trace.Link{SpanContext: c.context(span), Attributes: append(about, attribute.Int64(RevisionKey, c.revision))}
}

// NewSpanID draws one.
func NewSpanID() (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // which never fails
	return id
}

// given has spans get the ids that they are recorded with.
type given struct{}

type (
	givenKey struct{}
	givenIDs struct {
		trace trace.TraceID
		span  trace.SpanID
	}
)

// NewIDs returns those of a first span.
func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids, _ := ctx.Value(givenKey{}).(givenIDs)
	return ids.trace, ids.span
}

// NewSpanID returns that of another span.
func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	ids, _ := ctx.Value(givenKey{}).(givenIDs)
	return ids.span
}
