package change

import (
	"context"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// WouldCause has the server try documents in a dry run, and returns the problems that they would cause.
func WouldCause(ctx context.Context, s *session.Session, documents []*kinds.Document) (problems.Warnings, error) {
	dry := Options{DryRun: true}
	done, err := Import(ctx, &s.Server, dry.Start(), files.NewProgress(s.Err, nil), func(send func(*kinds.Document) error) error {
		for _, d := range documents {
			if err := send(d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return problems.Warnings{}, err
	}
	return done.Warnings(), nil
}
