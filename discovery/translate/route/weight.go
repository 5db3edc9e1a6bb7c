package route

import (
	"math"
	"math/bits"
)

// Shares are weights as Envoy takes them: it divides by proportion, whatever they add up to. But it
// adds up those of requests in 32 bits, and refuses all routes if the sum does not fit. Such
// weights are halved until they fit.
type Shares struct{ halved int }

// Divide decides how the weights of destinations are written.
func Divide[D interface{ GetWeight() int32 }](destinations []D) Shares {
	var sum uint64
	for _, d := range destinations {
		sum += uint64(max(d.GetWeight(), 0))
	}
	if sum <= math.MaxUint32 {
		return Shares{}
	}
	return Shares{halved: bits.Len64(sum >> 31)} // one bit more than needed, since weights that would be 0 become 1
}

// Share is the weight of a destination. It is never 0.
func (d Shares) Share(weight int32) uint32 { return max(uint32(weight)>>d.halved, 1) }
