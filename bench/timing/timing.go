// Package timing has what all time measurements share: the pause before them, and their
// percentiles.
package timing

import (
	"math"
	"math/rand/v2"
	"time"
)

// Settle lets the system become quiet before a change. Its random length keeps it from
// synchronizing with any timer.
func Settle() { time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond)) }

// Percentile is the nearest rank: the smallest time that p percent do not exceed, 0 of none.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}
