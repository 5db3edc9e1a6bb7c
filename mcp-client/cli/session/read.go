package session

import (
	"context"
	"fmt"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
)

// Read reads the current resources of some kinds, and shows progress to the user.
func (s *Session) Read(ctx context.Context, ks []*kinds.Kind) (*connect.State, error) {
	notice := s.Notice("reading from " + s.Server.Address)
	defer notice.End()
	return s.Server.Read(ctx, ks, &connect.Events{Message: notice.Count, Unanswered: func(missing []*kinds.Kind) {
		notice.End()
		s.WarnOfMissing(missing)
	}})
}

// WarnOfMissing says which kinds are missing from what was read.
func (s *Session) WarnOfMissing(missing []*kinds.Kind) {
	for _, k := range missing {
		fmt.Fprintf(s.Err, "warning: the server at %s does not say whether it has a %s: what was read is without it\n", s.Server.Address, k.Name)
	}
}
