package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// MostMerged bounds how many revisions that travel with a later one are told of.
const MostMerged = 100

// Merged returns the traces of the revisions after one and before another, which travel with that
// one: the newest of them, if there are very many.
func (t *Tracer) Merged(mesh string, after, with int64) (all []*Trace) {
	if t == nil || after <= 0 {
		return nil
	}
	for r := max(after+1, with-MostMerged); r < with; r++ {
		if c := t.Of(mesh, r); c != nil {
			all = append(all, c)
		}
	}
	return all
}

// RecordMerged records a span of a revision, and a span of each revision after another one, with
// which that one travels. They link to each other, whichever are traced.
func (t *Tracer) RecordMerged(mesh string, after, revision int64, s Span) {
	change, merged := t.Of(mesh, revision), t.Merged(mesh, after, revision)
	if s.ID == (trace.SpanID{}) {
		s.ID = NewSpanID()
	}
	for _, c := range merged {
		part := Span{Name: s.Name, ID: NewSpanID(), Began: s.Began, Ended: s.Ended}
		if change != nil {
			part.Links = []trace.Link{change.LinkTo(s.ID)}
			s.Links = append(s.Links, c.LinkTo(part.ID))
		}
		part.Attributes = append(part.Attributes, s.Attributes...)
		part.Attributes = append(part.Attributes, attribute.Int64(WithKey, revision))
		c.Record(part)
	}
	if len(merged) > 0 {
		s.Attributes = append(s.Attributes, attribute.Int(MergedKey, len(merged)))
	}
	change.Record(s)
}
