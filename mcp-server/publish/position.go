package publish

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/stamp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Position says which state is published: the revision, and a mark that tells it from every other that has its number, as a database
// gives again that was restored or failed over.
type Position struct {
	Revision int64
	Mark     string
}

// end is the resource that ends the position's batch, with the time at which that was committed, if it is known. Its version tells the revision from one of the same number: a client that
// has that one still waits for the mark of this one.
func (at Position) end(committed time.Time) *ads.Set {
	body, err := anypb.New(&mcpv1.Batch{Revision: at.Revision, Committed: stamp.Of(committed)})
	if err != nil {
		panic(err) // a message of two numbers always encodes
	}
	return ads.NewSet(&ads.Resource{Name: mcpv1.BatchName, Version: at.String(), Body: body})
}

// String is the version of the mark that ends the position's batch.
func (at Position) String() string { return strconv.FormatInt(at.Revision, 10) + "." + at.Mark }
