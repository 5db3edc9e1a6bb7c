// Package source says where configuration comes from: an MCP server, a directory of files, a
// program that embeds discovery. Each gives batches, and several are merged into one.
package source

import (
	"context"

	"github.com/pgmesh/pgmesh/kinds"
)

// Source gives configuration, in batches.
type Source interface {
	// Name is its name for people: "mcp", "files".
	Name() string
	// Run hands on batches, one at a time, until the context ends. The first has everything, each
	// later one what differs. An error of apply ends it. When apply returns, a batch is taken, and
	// may still wait to be pushed: its InForce tells when it is in force.
	Run(ctx context.Context, apply func(kinds.Batch) error) error
	// Ready returns an error, with what is missing, before the first batch. After that, about says
	// what people should know of its state.
	Ready() (about string, err error)
}
