package publish

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Position identifies a published state: its revision, and a mark that tells it from other states
// with the same revision, which exist after a database was restored or failed over.
type Position struct {
	Revision int64
	Mark     string
}

// end returns the resource that ends the position's batch, with the commit time if that is known.
// Its version includes the mark, so a client that has the same revision of another history still
// waits for this one. More tells apart what is served at one position.
func (at Position) end(committed time.Time, more string) *served.Set {
	body, err := anypb.New(&mcpv1.Batch{Revision: at.Revision, Committed: stamp.Of(committed)})
	if err != nil {
		panic(err) // a message of two numbers always encodes
	}
	return served.NewSet(&served.Resource{Name: mcpv1.BatchName, Version: at.String() + more, Body: body})
}

// String returns the version of the resource that ends the batch.
func (at Position) String() string { return strconv.FormatInt(at.Revision, 10) + "." + at.Mark }
