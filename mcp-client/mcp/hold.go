package mcp

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// holds keeps the resources of kinds that a server suddenly has none of: a server that lost its own
// source answers like one that was emptied. After a while the client believes the server if it
// still has none, on whichever stream. A holds is immutable.
type holds struct {
	after time.Duration // 0: nothing is held
	kinds map[*kinds.Kind]hold
}

type hold struct {
	since time.Time
	keys  map[kinds.Key]bool
}

func newHolds(after time.Duration) *holds { return &holds{after: after} }

// filter removes from a batch the deletions to hold, and adds the deletions to release.
func (h *holds) filter(b kinds.Batch, s *state, unexpected bool, confirmed func(*kinds.Kind) bool) (kinds.Batch, *holds) {
	if h.after == 0 {
		return b, h
	}
	next := &holds{after: h.after, kinds: map[*kinds.Kind]hold{}}
	for k, held := range h.kinds {
		keys := maps.Clone(held.keys)
		for _, c := range b.Changes {
			delete(keys, c.Key) // it changed
		}
		_, size := s.size(k)
		if size == 0 && (time.Since(held.since) < h.after || !confirmed(k)) {
			next.kinds[k] = hold{held.since, keys}
			continue
		}
		for key := range keys {
			b.Changes = append(b.Changes, kinds.Change{Key: key})
		}
	}
	if unexpected {
		b.Changes = slices.DeleteFunc(b.Changes, func(c kinds.Change) bool { return c.Resource == nil && next.hold(c.Key, s) })
	}
	return b, next
}

// hold adds a deleted resource if all others of its kind are deleted with it.
func (h *holds) hold(key kinds.Key, s *state) bool {
	if now, next := s.size(key.Kind); now == 0 || next > 0 {
		return false
	}
	held, ok := h.kinds[key.Kind]
	if !ok {
		held = hold{time.Now(), map[kinds.Key]bool{}}
		h.kinds[key.Kind] = held
	}
	held.keys[key] = true
	return true
}

// nextRelease returns how long until the first kind can be released, of those for which the server
// has answered.
func (h *holds) nextRelease(confirmed func(*kinds.Kind) bool) (left time.Duration, some bool) {
	for k, held := range h.kinds {
		if d := h.after - time.Since(held.since); confirmed(k) && (!some || d < left) {
			left, some = d, true
		}
	}
	return left, some
}

func (h *holds) list() []Held {
	var list []Held
	for k, held := range h.kinds {
		list = append(list, Held{Kind: k, Resources: len(held.keys), Until: held.since.Add(h.after)})
	}
	slices.SortFunc(list, func(a, b Held) int { return strings.Compare(a.Kind.TypeURL(), b.Kind.TypeURL()) })
	return list
}

// report logs the kinds that are newly held, and those that are released.
func (h *holds) report(log *slog.Logger, before *holds) {
	for k, held := range h.kinds {
		if _, old := before.kinds[k]; !old {
			log.Warn("the server has suddenly no resources of a kind; those that it had stay in force until it has said so for a while",
				"kind", k.Name, "api_group", k.Group, "resources", len(held.keys), "for", h.after)
		}
	}
	for k := range before.kinds {
		if _, still := h.kinds[k]; !still {
			log.Info("a kind that was held follows the server again", "kind", k.Name, "api_group", k.Group)
		}
	}
}
