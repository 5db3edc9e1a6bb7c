// Package source is where configuration comes from: an MCP server, a directory of files, a program that embeds discovery. Each
// gives batches, and several are merged into one.
package source

import (
	"context"

	"github.com/pgmesh/pgmesh/discovery/configstore"
)

// Source gives configuration.
type Source interface {
	// Name is what people know it by: "mcp", "files".
	Name() string
	// Run hands on batches, one at a time, until the context ends. The first is all that there is, each later one what differs.
	// An error of apply ends it.
	Run(ctx context.Context, apply func(configstore.Batch) error) error
	// Ready returns an error as long as no first batch could be given, with what is missing, and after that what there is to say
	// about the state of the source.
	Ready() (about string, err error)
}
