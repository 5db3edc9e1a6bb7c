package memory

import "hash/maphash"

// hostMarks is a set of hosts, as good as 64 bits can tell: hosts that have no bit in common are not the same. Of a thousand rules a glance at these
// finds the few that a host may be of concern to.
type hostMarks uint64

const allMarks = ^hostMarks(0)

var markSeed = maphash.MakeSeed()

func markOf(host string) hostMarks { return 1 << (maphash.String(markSeed, host) % 64) }

// known is the group as it is remembered.
func (g *ruledGroup) known() knownGroup {
	marks := allMarks
	if g.hosts != nil {
		marks = 0
		for _, host := range g.hosts {
			marks |= markOf(host)
		}
	}
	return knownGroup{g, marks}
}
