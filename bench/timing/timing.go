// Package timing is how all measurements of time here begin, and what they say of many times.
package timing

import (
	"math"
	"math/rand/v2"
	"time"
)

// Settle lets the system go quiet before a change, for a time that no timer in it can stay in step with.
func Settle() { time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond)) }

// Percentile is the nearest rank: the smallest time that p of a hundred do not exceed. Of no times it is none.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}
