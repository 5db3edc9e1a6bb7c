package session

import (
	"context"
	"fmt"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// Read reads the current resources of some kinds, of which the command wants those of its namespace.
func (s *Session) Read(ctx context.Context, ks []*kinds.Kind) (*connect.State, error) {
	return s.read(ctx, s.namespace(), ks)
}

// ReadWhole reads the current resources of some kinds for a command that wants them all.
func (s *Session) ReadWhole(ctx context.Context, ks []*kinds.Kind) (*connect.State, error) {
	return s.read(ctx, Everywhere, ks)
}

// read shows progress to the user, and tells what is left out.
func (s *Session) read(ctx context.Context, namespace string, ks []*kinds.Kind) (*connect.State, error) {
	notice := s.Notice("reading from " + s.Server.Address)
	defer notice.End()
	var from mcp.Status
	read, err := s.Server.Read(ctx, ks, &connect.Events{Answered: func(status mcp.Status) { from = status }, Message: notice.Count, Unanswered: func(missing []*kinds.Kind) {
		notice.End()
		s.WarnOfMissing(missing)
	}})
	if err == nil && from.Server == discoveryName {
		notice.End()
		fmt.Fprintf(s.Err, "warning: what listens at %s is a discovery, which has no resources to read: name mcp-server, which listens on 15020 unless it was told otherwise\n", s.Server.Address)
	}
	if err == nil {
		notice.End()
		s.WarnOfRights(ctx, namespace, ks)
	}
	return read, err
}

// discoveryName is what discoveries call themselves. They answer for any type, and have nothing of
// those that they do not serve.
const discoveryName = "pgmesh/discovery"

// WarnOfMissing says which kinds are missing from what was read.
func (s *Session) WarnOfMissing(missing []*kinds.Kind) {
	for _, k := range missing {
		fmt.Fprintf(s.Err, "warning: the server at %s does not say whether it has a %s: what was read is without it\n", s.Server.Address, k.Name)
	}
}
