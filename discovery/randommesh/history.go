package randommesh

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pgmesh/pgmesh/kinds"
)

// History draws a mesh, and then changes to it: a batch for each revision, from 1. Resources are
// varied, removed, created again, put back as they were, and written again unchanged. Most batches
// have one change, some a few, and some of those have several changes of one resource.
func History(t testing.TB, dice *rand.Rand, v Variety, changes int) []kinds.Batch {
	t.Helper()
	h := &history{dice: dice, variety: v, standing: v.Begin(t, dice)}
	first := make([]kinds.Change, len(h.standing))
	for i, d := range h.standing {
		first[i] = kinds.Change{Key: d.Key(), Resource: d.Resource}
	}
	batches := []kinds.Batch{{Revision: 1, Changes: first}}
	for range changes {
		n := 1
		if dice.IntN(4) == 0 {
			n += dice.IntN(4)
		}
		b := kinds.Batch{Revision: int64(len(batches)) + 1}
		for range n {
			b.Changes = append(b.Changes, h.change(t))
		}
		batches = append(batches, b)
	}
	return batches
}

// history is a mesh in its present state, and what was removed from it.
type history struct {
	dice           *rand.Rand
	variety        Variety
	standing, gone []*Draft
}

func (h *history) change(t testing.TB) kinds.Change {
	t.Helper()
	switch what := h.dice.IntN(20); {
	case len(h.standing) == 0 || what < 3:
		return h.put(h.variety.Another(t, h.dice))
	case what < 6:
		return h.remove(h.dice.IntN(len(h.standing)))
	case what < 8 && len(h.gone) > 0:
		d := *h.gone[h.dice.IntN(len(h.gone))]
		r := *d.Resource
		r.CreateTime = age(h.dice)
		d.Resource = &r
		return h.put(&d)
	case what < 10:
		return h.put(h.any().again())
	default:
		return h.put(h.variety.Vary(t, h.dice, h.any()))
	}
}

func (h *history) any() *Draft { return h.standing[h.dice.IntN(len(h.standing))] }

// put creates a resource, or replaces the one with its key, whose age it keeps.
func (h *history) put(d *Draft) kinds.Change {
	same := func(o *Draft) bool { return o.Key() == d.Key() }
	h.gone = slices.DeleteFunc(h.gone, same)
	if i := slices.IndexFunc(h.standing, same); i >= 0 {
		r := *d.Resource
		r.CreateTime = h.standing[i].CreateTime
		kept := *d
		kept.Resource = &r
		d, h.standing[i] = &kept, &kept
	} else {
		h.standing = append(h.standing, d)
	}
	return kinds.Change{Key: d.Key(), Resource: d.Resource}
}

func (h *history) remove(i int) kinds.Change {
	d := h.standing[i]
	h.standing = slices.Delete(h.standing, i, i+1)
	h.gone = append(h.gone, d)
	return kinds.Change{Key: d.Key()}
}

// Written prints resources, so that people can see why a history fails.
func Written(resources []*kinds.Resource) string {
	text, err := kinds.MarshalYAML(resources...)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
