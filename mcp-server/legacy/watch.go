package legacy

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// watch is the state of one collection on one stream: what the sink asked for, has, and is still to
// be sent.
type watch struct {
	collection  *collection
	name        string // of the collection, as the sink wrote it
	incremental bool   // its latest request accepts changes

	// due is set while the sink waits for a response, even an empty one.
	due bool
	// doneVersion is a version that the sink has, has refused, or cannot be sent: nothing is sent
	// while it is the newest.
	doneVersion string
	// bases are sets of which the sink has one, or a mixture; empty while it is unknown what it
	// has.
	bases []*served.Set

	pending  *pending  // the unanswered response; nil for none
	transfer *transfer // a change that is being sent in parts; nil for none
}

// pending is an unanswered response.
type pending struct {
	nonce   string
	content content
	whole   bool // it replaces everything that the sink has
}

// transfer is a change that is sent as items, in as many responses as it takes.
type transfer struct {
	from     []*served.Set
	to       content
	items    []item   // still to be sent
	tooLarge []string // names of resources that are too large for any response
}

// handleRequest processes a request that does not answer a response. A pending response counts as
// accepted. If the sink says what it has, it may have said so before it read that response, so both
// are bases.
func (w *watch) handleRequest(r *request) {
	p := w.pending
	if p != nil {
		w.acked()
	}
	w.transfer = nil
	w.due, w.doneVersion = r.version == "", r.version
	if len(r.held) > 0 {
		w.bases = []*served.Set{versionSet(r.held)}
		if p != nil {
			w.bases = append(w.bases, p.content.set)
		}
	}
}

// setIncremental records whether the sink accepts changes. If it no longer does, it is sent the
// whole collection instead of the rest of a transfer.
func (w *watch) setIncremental(incremental bool) {
	w.incremental = incremental
	if w.transfer != nil && !incremental {
		w.transfer, w.doneVersion = nil, ""
	}
}

// versionSet returns a set of the names and versions that a sink has from an earlier stream.
func versionSet(held map[string]string) *served.Set {
	stubs := make([]*served.Resource, 0, len(held))
	for name, version := range held {
		stubs = append(stubs, &served.Resource{Name: name, Version: version})
	}
	return served.NewSet(stubs...)
}

// acked records that the sink accepted the pending response.
func (w *watch) acked() {
	p, j := w.pending, w.transfer
	w.pending = nil
	switch {
	case p.whole:
		w.bases = []*served.Set{p.content.set}
	case len(j.items) == 0:
		w.bases = []*served.Set{withOld(j.to.set, j.tooLarge, j.from)}
		w.transfer = nil
	}
}

// nacked records that the sink refused the pending response. The same content is not sent again,
// because it would be refused again.
func (w *watch) nacked() { w.pending, w.transfer = nil, nil }

// markDone records that there is nothing more to send of a content.
func (w *watch) markDone(c content) { w.due, w.doneVersion = false, c.version }

// plan returns the transfer that brings the sink to a content; nil if it has to be sent the whole
// collection.
func (w *watch) plan(c content, wholes bool) *transfer {
	from := w.bases
	if len(from) == 0 && !wholes {
		from = []*served.Set{nil}
	}
	if !w.incremental || len(from) == 0 {
		return nil
	}
	return &transfer{from: from, to: c, items: changesTo(from, c.set)}
}

// dropLarge drops resources that fit into no response, and returns the size of the largest. A name
// that fits into none is not ours: a sink made it up.
func (j *transfer) dropLarge(field protowire.Number, room int) (largest int) {
	j.items = slices.DeleteFunc(j.items, func(i item) bool {
		size := i.size(field)
		if size > room && i.resource != nil {
			j.tooLarge, largest = append(j.tooLarge, i.resource.Name), max(largest, size)
		}
		return size > room
	})
	return largest
}

// beginTransfer starts a transfer. If it takes several responses, the sink has a mixture meanwhile.
func (w *watch) beginTransfer(j *transfer, parts bool) {
	w.transfer = j
	if parts {
		w.bases = append(slices.Clone(j.from), j.to.set)
	}
}
