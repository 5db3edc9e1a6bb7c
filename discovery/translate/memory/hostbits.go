package memory

import "hash/maphash"

// hostBits is a set of hosts in 64 bits. It may hold hosts that nobody put in, but never lacks
// one. Among a thousand rules it finds quickly the few that may depend on a host.
type hostBits uint64

const allHosts = ^hostBits(0)

var hostSeed = maphash.MakeSeed()

func bitOf(host string) hostBits { return 1 << (maphash.String(hostSeed, host) % 64) }

// known is the group as it is remembered.
func (g *ruledGroup) known() knownGroup {
	bits := allHosts
	if g.hosts != nil {
		bits = 0
		for _, host := range g.hosts {
			bits |= bitOf(host)
		}
	}
	return knownGroup{g, bits}
}
