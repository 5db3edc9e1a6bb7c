package legacy

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// watch is what one stream wants, has, and is still to be told of one collection.
type watch struct {
	collection  *collection
	name        string // of the collection, as the sink wrote it
	incremental bool   // its latest request takes what changed only

	// due is set while the sink waits for an answer, even one that says nothing.
	due bool
	// settled is the version that the sink has, has refused, or cannot be sent: there is nothing to say while it is the newest.
	settled string
	// bases are states of the collection of which the sink has one, or a mixture; none while nothing is known of what it has.
	bases []*ads.Set

	pending *pending // the response that the sink has not answered
	journey *journey // a change that is on its way in several responses
}

// pending is a response that waits for its answer.
type pending struct {
	nonce   string
	content content
	whole   bool // it replaces all that the sink has
}

// journey is a change that travels as steps, in as many responses as it takes.
type journey struct {
	from  []*ads.Set
	to    content
	items []item   // that are left to send
	stuck []string // names of resources that are too large for any response
}

// ask takes in a request that answers nothing. A response that was pending counts as accepted; a sink that tells what it has may not
// have seen that response yet.
func (w *watch) ask(r *request) {
	p := w.pending
	if p != nil {
		w.acked()
	}
	w.journey = nil
	w.due, w.settled = r.version == "", r.version
	if len(r.held) > 0 {
		w.bases = []*ads.Set{heldSet(r.held)}
		if p != nil {
			w.bases = append(w.bases, p.content.set)
		}
	}
}

// take notes whether the sink takes what changed only. If it no longer does, it is sent the whole instead of the rest of a journey.
func (w *watch) take(incremental bool) {
	w.incremental = incremental
	if w.journey != nil && !incremental {
		w.journey, w.settled = nil, ""
	}
}

// heldSet is what a sink has from an earlier stream, of which only names and versions are known.
func heldSet(held map[string]string) *ads.Set {
	stubs := make([]*ads.Resource, 0, len(held))
	for name, version := range held {
		stubs = append(stubs, &ads.Resource{Name: name, Version: version})
	}
	return ads.NewSet(stubs...)
}

// acked notes that the sink has the pending response.
func (w *watch) acked() {
	p, j := w.pending, w.journey
	w.pending = nil
	switch {
	case p.whole:
		w.bases = []*ads.Set{p.content.set}
	case len(j.items) == 0:
		w.bases = []*ads.Set{without(j.to.set, j.stuck, j.from)}
		w.journey = nil
	}
}

// nacked notes that the sink refuses the pending response. The same content is not sent again: it would be refused again.
func (w *watch) nacked() { w.pending, w.journey = nil, nil }

// settle notes that there is nothing more to say of a content.
func (w *watch) settle(c content) { w.due, w.settled = false, c.version }

// plan decides how the sink is brought to a content: by steps, or if that is nil by the whole of it.
func (w *watch) plan(c content, wholes bool) *journey {
	from := w.bases
	if len(from) == 0 && !wholes {
		from = []*ads.Set{nil}
	}
	if !w.incremental || len(from) == 0 {
		return nil
	}
	return &journey{from: from, to: c, items: steps(from, c.set)}
}

// dropLarge takes those resources out of a journey that fit into no response, and returns the size of the largest. Names that fit into none
// are none of ours: a sink has made them up.
func (j *journey) dropLarge(field protowire.Number, room int) (largest int) {
	j.items = slices.DeleteFunc(j.items, func(i item) bool {
		size := i.size(field)
		if size > room && i.resource != nil {
			j.stuck, largest = append(j.stuck, i.resource.Name), max(largest, size)
		}
		return size > room
	})
	return largest
}

// embark begins a journey. If it takes several responses, the sink has a mixture on the way.
func (w *watch) embark(j *journey, parts bool) {
	w.journey = j
	if parts {
		w.bases = append(slices.Clone(j.from), j.to.set)
	}
}
