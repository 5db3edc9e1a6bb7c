package ads

import (
	"slices"
	"strconv"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/ads/wire"
)

// delivery is the content of a response until it is answered.
type delivery struct {
	step

	ends      []contents // the cumulated sizes at the end of each part
	suspects  []*served.Resource
	remaining []string // removals in refused parts
}

type contents struct{ resources, removed int }

// endPart records the size of a part.
func (d *delivery) endPart(p wire.Part) {
	end := contents{len(p.Resources), len(p.Removed)}
	if n := len(d.ends); n > 0 {
		end.resources, end.removed = end.resources+d.ends[n-1].resources, end.removed+d.ends[n-1].removed
	}
	d.ends = append(d.ends, end)
}

// suspect adds the content of refused part i to the suspects. A response in one part may contain
// unchanged resources, too; only changed ones are suspects.
func (d *delivery) suspect(i uint64) {
	from, to := contents{}, contents{len(d.changed), len(d.removed)}
	if len(d.ends) > 1 {
		if to = d.ends[i]; i > 0 {
			from = d.ends[i-1]
		}
	}
	d.suspects = append(d.suspects, d.changed[from.resources:to.resources]...)
	d.remaining = append(d.remaining, d.removed[from.removed:to.removed]...)
}

// suspect records that the client refused the part of the response with this nonce.
func (s *subscription) suspect(nonce string) {
	s.partRefused = true
	n, err := strconv.ParseUint(nonce, 10, 64)
	if s.delivery != nil && err == nil {
		s.delivery.suspect(n - s.oldest)
	}
}

// singleSuspect reports whether a single resource was refused, and so alone.
func (d *delivery) singleSuspect() bool {
	return !slices.ContainsFunc(d.suspects, func(r *served.Resource) bool { return r != d.suspects[0] })
}

// accepted returns the resources of an answered response that are in no refused part.
func (d *delivery) accepted() []*served.Resource {
	if len(d.suspects) == 0 {
		return d.changed
	}
	suspects := make(map[*served.Resource]bool, len(d.suspects))
	for _, r := range d.suspects {
		suspects[r] = true
	}
	return slices.DeleteFunc(slices.Clone(d.changed), func(r *served.Resource) bool { return suspects[r] })
}
