package redirect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Range is the ports from First to Last.
type Range struct{ First, Last uint16 }

func (r Range) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Ports is a set of ports: in ascending order, with gaps between the ranges.
type Ports []Range

// AllPorts are all that there are.
var AllPorts = Ports{{1, 65535}}

// PortsOf is the set of single ports.
func PortsOf(ports ...uint16) Ports {
	var out Ports
	for _, p := range ports {
		if p != 0 {
			out = append(out, Range{p, p})
		}
	}
	return out.merged()
}

// ParsePorts reads ports and ranges as people write them: 80, 8000-8100.
func ParsePorts(words []string) (Ports, error) {
	var out Ports
	for _, word := range words {
		first, last, isRange := strings.Cut(strings.TrimSpace(word), "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || from == 0 || to < from {
			return nil, fmt.Errorf("%q is no port: write 80, or 8000-8100 for a range", word)
		}
		out = append(out, Range{uint16(from), uint16(to)})
	}
	return out.merged(), nil
}

// Plus has the ports of both.
func (p Ports) Plus(q Ports) Ports { return slices.Concat(p, q).merged() }

func (p Ports) merged() Ports {
	sorted := slices.SortedFunc(slices.Values(p), func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	var out Ports
	for _, r := range sorted {
		if n := len(out); n > 0 && int(r.First) <= int(out[n-1].Last)+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Without has the ports of p that q lacks.
func (p Ports) Without(q Ports) Ports {
	var out Ports
	for _, r := range p {
		from := int(r.First)
		for _, hole := range q {
			if int(hole.Last) < from || hole.First > r.Last {
				continue
			}
			if int(hole.First) > from {
				out = append(out, Range{uint16(from), hole.First - 1})
			}
			from = int(hole.Last) + 1
		}
		if from <= int(r.Last) {
			out = append(out, Range{uint16(from), r.Last})
		}
	}
	return out
}

// And has the ports that are in both.
func (p Ports) And(q Ports) Ports { return p.Without(p.Without(q)) }

// whole tells whether these are all ports, which rules need not name then.
func (p Ports) whole() bool { return len(p) == 1 && p[0] == AllPorts[0] }

func (p Ports) String() string {
	words := make([]string, len(p))
	for i, r := range p {
		words[i] = r.String()
	}
	return strings.Join(words, ", ")
}
