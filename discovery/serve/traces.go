package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/passage"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/internal/tracing"
)

// trace opens the tracer, and what records the way of revisions with it: both are nil if that is
// not asked for.
func (o *Options) trace(config source.Source, metrics prometheus.Registerer) (*tracing.Tracer, *passage.Recorder, error) {
	name, _ := o.Identity.names()
	tracer, err := o.Traces.Open("discovery", name, o.Log, metrics)
	if err != nil {
		return nil, nil, err
	}
	return tracer, passage.New(tracer, func() string { return meshOf(config) }), nil
}

// trace has the way of revisions recorded; not if it is nil.
func (f *follower) trace(way *passage.Recorder, engine *push.Engine) {
	if f.passage, f.pushes = way, engine.Pushes; way != nil {
		engine.Watch(way)
	}
}

// meshOf is the id of the mesh that a source is of; "" if it does not say. Of several sources the
// first gives the revisions.
func meshOf(config source.Source) string {
	switch s := config.(type) {
	case *source.Merged:
		return meshOf(s.First())
	case followed:
		if standing := s.Status().Standing; standing != nil {
			return standing.Mesh
		}
	}
	return ""
}
