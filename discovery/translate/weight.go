package translate

import (
	"math"
	"math/bits"
)

// division is how weights are written for Envoy, which divides by proportion, whatever they add up to. But it adds up those of requests in 32
// bits, and refuses all routes where they are more: such weights are halved until they fit.
type division struct{ halved int }

func divide[D interface{ GetWeight() int32 }](destinations []D) division {
	var sum uint64
	for _, d := range destinations {
		sum += uint64(max(d.GetWeight(), 0))
	}
	if sum <= math.MaxUint32 {
		return division{}
	}
	return division{halved: bits.Len64(sum >> 31)} // one bit less, for those that would be nothing are 1
}

// share is what a destination has that is to have something.
func (d division) share(weight int32) uint32 { return max(uint32(weight)>>d.halved, 1) }
