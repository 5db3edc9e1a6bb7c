package serve

import (
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/mcp-server/passage"
)

// trace has the passage of revisions recorded, if that is asked for. The tracer that it returns is
// nil otherwise.
func (s *server) trace() (*tracing.Tracer, error) {
	tracer, err := s.options.Traces.Open("mcp-server", s.options.Name, s.options.Log, s.metrics)
	if tracer == nil {
		return nil, err
	}
	s.passage = passage.New(tracer, func() string { return s.publisher.Source().Mesh })
	s.clients.Follower = s.passage
	return tracer, nil
}
