package ads

import (
	"slices"
	"strconv"
)

// delivery is what a response was made of, until it is answered.
type delivery struct {
	step

	ends      []contents // how much there is up to the end of each part
	accused   []*Resource
	remaining []string // what was to be removed by a part that was refused
}

type contents struct{ resources, removed int }

// endPart notes how much a part of the response has in it.
func (d *delivery) endPart(p part) {
	end := contents{len(p.resources), len(p.removed)}
	if n := len(d.ends); n > 0 {
		end.resources, end.removed = end.resources+d.ends[n-1].resources, end.removed+d.ends[n-1].removed
	}
	d.ends = append(d.ends, end)
}

// accuse notes that a part of the response was refused, by its number. What has one part may have more in it than what has changed.
func (d *delivery) accuse(i uint64) {
	from, to := contents{}, contents{len(d.changed), len(d.removed)}
	if len(d.ends) > 1 {
		if to = d.ends[i]; i > 0 {
			from = d.ends[i-1]
		}
	}
	d.accused = append(d.accused, d.changed[from.resources:to.resources]...)
	d.remaining = append(d.remaining, d.removed[from.removed:to.removed]...)
}

// accuse notes that the client refused the part of the response that has this nonce.
func (s *subscription) accuse(nonce string) {
	s.partRefused = true
	n, err := strconv.ParseUint(nonce, 10, 64)
	if s.delivery != nil && err == nil {
		s.delivery.accuse(n - s.oldest)
	}
}

// accusesOne tells whether a single resource was refused, and so alone.
func (d *delivery) accusesOne() bool {
	return !slices.ContainsFunc(d.accused, func(r *Resource) bool { return r != d.accused[0] })
}

// accepted are the resources of an answered response that no refusal was about.
func (d *delivery) accepted() []*Resource {
	if len(d.accused) == 0 {
		return d.changed
	}
	accused := make(map[*Resource]bool, len(d.accused))
	for _, r := range d.accused {
		accused[r] = true
	}
	return slices.DeleteFunc(slices.Clone(d.changed), func(r *Resource) bool { return accused[r] })
}
