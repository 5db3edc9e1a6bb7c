// Package randommesh makes random meshes, and the random ways in which they change, for tests of what discovery makes of them.
//
// There are two varieties. A [Stock] breeds resources from those of golden inputs, which say everything that can be said of each kind: it
// finds what nobody thought of. A [Town] is a mesh that was written by hand, in which hosts, subsets, ports and selectors meet and miss
// one another all the time: it finds what a change of one resource means for what was made of another. There is a second one, whose services
// are rivals: their ServiceEntries all claim the same few hosts.
//
// All resources are valid by the rules of their kinds. Everything follows from the dice, so that a seed replays it.
package randommesh

import (
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/kinds"
)

// Variety is what random resources are drawn from.
type Variety interface {
	// Begin draws a mesh, each key once.
	Begin(t testing.TB, dice *rand.Rand) []*Draft
	// Another draws one more resource, whose key may be taken.
	Another(t testing.TB, dice *rand.Rand) *Draft
	// Vary draws another version of a resource, under the same key. It may come out the same.
	Vary(t testing.TB, dice *rand.Rand, d *Draft) *Draft
}

// Draft is a resource that can be varied.
type Draft struct {
	*kinds.Resource

	spec    []byte // of a stock: what parts are put into, as JSON
	form    *form  // of a town
	choices []int  // which alternative stands in each of the form's places
}

// epoch is when the oldest resources were made.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// age decides which of two rivals comes first. Some are of one age.
func age(dice *rand.Rand) time.Time { return epoch.Add(time.Duration(dice.IntN(4)) * time.Minute) }

// again is the same resource, read anew: nothing of it but its kind is the same in memory.
func (d *Draft) again() *Draft {
	copied, r := *d, *d.Resource
	r.Spec = kinds.SpecOf(proto.Clone(r.Spec.Message()))
	copied.Resource = &r
	return &copied
}
