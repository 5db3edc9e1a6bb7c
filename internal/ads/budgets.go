package ads

import (
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/internal/limits"
)

// Budgets are what all clients together may use.
type Budgets struct {
	Memory *limits.Memory // for their large requests
	Again  *limits.Shares // for whole states that they ask for again
}

// Budgets returns the budgets of these limits. An observer is told when they are used up.
func (l Limits) Budgets(o Observer) *Budgets {
	memory := limits.NewMemory(l.Memory<<20, func(holder string, used, total int) string {
		return fmt.Sprintf("large requests take as much memory as they may, %s, and %s of it those of %s: ask for fewer names, name fewer versions, "+
			"or come back later; --max-request-memory-mib allows more", limits.MiB(total), limits.MiB(used), holder)
	})
	memory.Waited, memory.Refused = hears(o, MemoryLimit)
	again := limits.NewShares(l.Again, l.AgainBurst, func() string {
		return fmt.Sprintf("what clients were sent already is asked for again too often, more than %g times a second: answer a response with its nonce, "+
			"and what is new comes by itself; --max-repeat-rate allows more", l.Again)
	})
	if again != nil {
		again.Waited, again.Refused = hears(o, RepeatLimit)
	}
	return &Budgets{memory, again}
}

// Unfinished is the budget for requests that are still being received. It is as large as that for
// received ones.
func (l Limits) Unfinished(o Observer) *limits.Memory {
	memory := limits.NewUnfinished(l.Memory << 20)
	memory.Waited, memory.Refused = hears(o, UnfinishedLimit)
	return memory
}

// hears tells an observer when a limit is reached.
func hears(o Observer, limit string) (waited func(time.Duration), refused func()) {
	return func(d time.Duration) { o.Limited(limit, d, false) }, func() { o.Limited(limit, 0, true) }
}
