package panics

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"runtime"
	"sync"
	"time"
)

// deepest is how many calls tell a place from others.
const deepest = 64

// place names the place of the panic that is being caught: the same defect has the same name, however often it shows.
func place() string {
	callers := make([]uintptr, deepest)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	sum := fnv.New32a()
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		fmt.Fprintln(sum, f.Function, f.Line)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// told is when each place was logged last. A peer that found a defect may have it happen all day.
var told = struct {
	sync.Mutex

	last map[string]time.Time
}{last: map[string]time.Time{}}

const (
	tellEvery  = time.Minute
	mostPlaces = 256 // that are remembered
)

// tell says whether a place is to be logged now.
func tell(id string) bool {
	told.Lock()
	defer told.Unlock()
	now := time.Now()
	if last, known := told.last[id]; known && now.Sub(last) < tellEvery {
		return false
	}
	if len(told.last) >= mostPlaces {
		for id, last := range told.last {
			if now.Sub(last) >= tellEvery {
				delete(told.last, id)
			}
		}
	}
	if len(told.last) >= mostPlaces {
		return false // the metric counts it
	}
	told.last[id] = now
	return true
}
