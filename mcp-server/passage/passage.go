// Package passage records how a revision passes through a server, for its trace: the commit as the
// database tells of it, its publication, and how each client takes it.
package passage

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
	"github.com/pgmesh/pgmesh/store/feed"
)

// Recorder records passages.
type Recorder struct {
	tracer *tracing.Tracer
	mesh   func() string // the id of the mesh that is served

	mu      sync.Mutex
	sending map[*clients.Client]*sending
}

// New returns a recorder for a server of a mesh.
func New(t *tracing.Tracer, mesh func() string) *Recorder {
	return &Recorder{tracer: t, mesh: mesh, sending: map[*clients.Client]*sending{}}
}

// Read records a revision that was read from the database, and is served from now on.
func (r *Recorder) Read(b *feed.Batch, began time.Time) {
	change := r.tracer.Of(r.mesh(), b.Revision)
	if change == nil {
		return
	}
	about := contents(b)
	change.RecordCommit(tracing.Span{Began: b.Begun, Ended: b.Time, Attributes: append([]attribute.KeyValue{
		attribute.String(tracing.AuthorKey, b.Author), attribute.String(tracing.ApplicationKey, b.Application), attribute.String(tracing.MessageKey, b.Message),
	}, about...)})
	change.Record(tracing.Span{Name: "publish", Began: began, Ended: time.Now(), Attributes: about})
}

// contents are what a revision has changed.
func contents(b *feed.Batch) []attribute.KeyValue {
	var kindNames, namespaces tracing.Names
	for i := range b.Changes {
		kindNames.Add(b.Changes[i].Key.Kind.Name)
		namespaces.Add(b.Changes[i].Key.Namespace)
	}
	for i := range b.Secrets {
		kindNames.Add(kinds.Secret.Name)
		namespaces.Add(b.Secrets[i].Key.Namespace)
	}
	return []attribute.KeyValue{
		attribute.Int(tracing.ResourcesKey, len(b.Changes)+len(b.Secrets)), kindNames.As(tracing.KindsKey), namespaces.As(tracing.NamespacesKey),
	}
}

// Relayed records a batch that came from another server, and is served from now on. The revisions
// between the one before and its own have come with it.
func (r *Recorder) Relayed(b kinds.Batch, before int64, upstream string, began time.Time) {
	span := tracing.Span{Name: "relay", Began: began, Ended: time.Now(), Attributes: []attribute.KeyValue{
		attribute.String(tracing.UpstreamKey, upstream), attribute.Int(tracing.ResourcesKey, len(b.Changes)),
	}}
	r.tracer.RecordMerged(r.mesh(), before, b.Revision, span)
}

var _ clients.Follower = (*Recorder)(nil)
