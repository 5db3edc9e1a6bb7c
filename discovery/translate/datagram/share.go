package datagram

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/translate/matching"
)

// fineness is how exact weights are: the share of a backend is a multiple of 1/1024, or 0.
const fineness = 10

// portSeeds keep the draws of ports apart from those of addresses.
const portSeeds = 1 << fineness

// backend is somewhere that a rule sends to, with its weight.
type backend struct {
	weight uint64
	choice matching.Choice
}

// divided sends each socket of a client to one of several backends, by their weights. Envoy has no
// weights for datagrams. It can tell a half of all addresses, and of all ports, from the other; but
// clients may all have one address, or all one port. So each binary digit of a number is drawn twice,
// by the address and by the port, and is 1 if the two draws differ: it is fair if one of the two is.
// The number says which backend it is.
func divided(backends []backend) matching.Choice {
	var sum, before uint64
	for _, b := range backends {
		sum += b.weight
	}
	ends := make([]uint64, len(backends))
	for i, b := range backends {
		before += b.weight
		ends[i] = (before<<fineness + sum/2) / sum
	}
	return between(backends, ends, 0, 1<<fineness, 0)
}

// between chooses among the backends of numbers of which the first digits are known.
func between(backends []backend, ends []uint64, from, to uint64, digit uint64) matching.Choice {
	of := func(number uint64) int { return slices.IndexFunc(ends, func(end uint64) bool { return number < end }) }
	if of(from) == of(to-1) {
		return backends[of(from)].choice
	}
	middle := (from + to) / 2
	return matching.If(matching.Either(matching.AddressDraw(digit), matching.PortDraw(portSeeds+digit)),
		between(backends, ends, middle, to, digit+1), between(backends, ends, from, middle, digit+1))
}
