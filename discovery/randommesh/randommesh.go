// Package randommesh makes random meshes, and random changes to them, for tests of discovery.
//
// There are two varieties. [Golden] breeds resources from those of golden inputs, which have every
// field of each kind: it finds combinations that nobody thought of. [Template] is a mesh that was
// written by hand, in which hosts, subsets, ports and selectors match and miss one another all the
// time: it finds out whether a change of one resource reaches what was made from another.
// [NewRivals] is a template of ServiceEntries that all claim the same few hosts.
//
// All resources are valid by the rules of their kinds. Everything follows from the dice, so a seed
// replays it.
package randommesh

import (
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/kinds"
)

// Variety is a source of random resources.
type Variety interface {
	// Begin draws a mesh, each key once.
	Begin(t testing.TB, dice *rand.Rand) []*Draft
	// Another draws one more resource. Its key may be taken.
	Another(t testing.TB, dice *rand.Rand) *Draft
	// Vary draws another version of a resource, under the same key. It may come out the same.
	Vary(t testing.TB, dice *rand.Rand, d *Draft) *Draft
}

// Draft is a resource that can be varied.
type Draft struct {
	*kinds.Resource

	spec    []byte // of Golden: what parts are put into, as JSON
	form    *form  // of Template
	choices []int  // which alternative each place of the form has
}

// epoch is when the oldest resources were created.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// age decides which of two rivals comes first. Some are equally old.
func age(dice *rand.Rand) time.Time { return epoch.Add(time.Duration(dice.IntN(4)) * time.Minute) }

// again returns the same resource, parsed again: only its kind is the same pointer.
func (d *Draft) again() *Draft {
	copied, r := *d, *d.Resource
	r.Spec = kinds.SpecOf(proto.Clone(r.Spec.Message()))
	copied.Resource = &r
	return &copied
}
