// Package parallel spreads work over all processors.
package parallel

import (
	"runtime"
	"sync"
)

// minPerWorker is the least number of calls per goroutine: fewer cost less than starting one.
const minPerWorker = 64

// Each calls do for each index below n, on all processors if there are enough.
func Each(n int, do func(int)) {
	workers := max(1, min(runtime.GOMAXPROCS(0), n/minPerWorker))
	var working sync.WaitGroup
	for w := range workers {
		from, to := n*w/workers, n*(w+1)/workers
		working.Go(func() {
			for i := from; i < to; i++ {
				do(i)
			}
		})
	}
	working.Wait()
}
