package panics

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"runtime"
	"sync"
	"time"
)

// maxFrames is how many frames of the stack identify a place.
const maxFrames = 64

// place hashes the stack of the panic being recovered: the same defect always gets the same id.
func place() string {
	callers := make([]uintptr, maxFrames)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	sum := fnv.New32a()
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		fmt.Fprintln(sum, f.Function, f.Line)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// lastLogged has the time each place was last logged, so that a peer that found a defect cannot
// fill the log.
var lastLogged = struct {
	sync.Mutex

	at map[string]time.Time
}{at: map[string]time.Time{}}

const (
	logInterval = time.Minute
	maxPlaces   = 256 // in lastLogged
)

// shouldLog reports whether to log a panic at this place now, and records that it was.
func shouldLog(id string) bool {
	lastLogged.Lock()
	defer lastLogged.Unlock()
	now := time.Now()
	if last, known := lastLogged.at[id]; known && now.Sub(last) < logInterval {
		return false
	}
	if len(lastLogged.at) >= maxPlaces {
		for id, last := range lastLogged.at {
			if now.Sub(last) >= logInterval {
				delete(lastLogged.at, id)
			}
		}
	}
	if len(lastLogged.at) >= maxPlaces {
		return false // the metric still counts it
	}
	lastLogged.at[id] = now
	return true
}
