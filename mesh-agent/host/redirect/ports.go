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

// Ports is a set of ports, ascending and with gaps between its ranges.
type Ports []Range

// AllPorts is the set of all ports.
var AllPorts = Ports{{1, 65535}}

// PortsOf returns the set of these ports, without 0.
func PortsOf(ports ...uint16) Ports {
	var out Ports
	for _, p := range ports {
		if p != 0 {
			out = append(out, Range{p, p})
		}
	}
	return out.normalized()
}

// ParsePorts parses ports and ranges: 80, 8000-8100.
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
	return out.normalized(), nil
}

// Plus returns the union.
func (p Ports) Plus(q Ports) Ports { return slices.Concat(p, q).normalized() }

func (p Ports) normalized() Ports {
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

// Without returns the ports of p that q lacks.
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

// And returns the intersection.
func (p Ports) And(q Ports) Ports { return p.Without(p.Without(q)) }

// isAll reports whether these are all ports; then rules need not name them.
func (p Ports) isAll() bool { return len(p) == 1 && p[0] == AllPorts[0] }

func (p Ports) String() string {
	words := make([]string, len(p))
	for i, r := range p {
		words[i] = r.String()
	}
	return strings.Join(words, ", ")
}
