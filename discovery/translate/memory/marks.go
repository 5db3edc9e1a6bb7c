package memory

import "hash/maphash"

// hostMarks is a set of hosts in 64 bits. It may hold hosts that nobody put in, but never lacks
// one. Among a thousand rules it finds quickly the few that may depend on a host.
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
