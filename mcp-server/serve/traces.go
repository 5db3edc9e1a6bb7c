package serve

import "github.com/pgmesh/pgmesh/mcp-server/passage"

// trace has the passage of revisions recorded, if that is asked for.
func (s *server) trace() (err error) {
	if s.tracer, err = s.options.Traces.Open("mcp-server", s.options.Name, s.options.Log, s.metrics); s.tracer == nil {
		return err
	}
	s.passage = passage.New(s.tracer, func() string { return s.publisher.Source().Mesh })
	s.clients.Follower = s.passage
	return nil
}
