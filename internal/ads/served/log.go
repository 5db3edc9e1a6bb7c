package served

import (
	"slices"
	"sync"
)

// changeLog records the names touched by recent changes to a line of sets.
type changeLog struct {
	mu      sync.Mutex
	first   uint64 // the sequence number that entries[0] leads from
	entries [][]string
	names   int
}

// maxLoggedNames bounds a log's memory. For a reader further behind, comparing whole sets costs
// about the same.
const maxLoggedNames = 4096

// record logs the change from a set to its successor. For a set that already has a successor it
// starts a new log.
func (l *changeLog) record(from uint64, touched []string) (*changeLog, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from != l.first+uint64(len(l.entries)) {
		return &changeLog{}, 0
	}
	l.entries = append(l.entries, touched)
	l.names += len(touched)
	for l.names > maxLoggedNames {
		l.names -= len(l.entries[0])
		l.entries[0] = nil
		l.entries = l.entries[1:]
		l.first++
	}
	return l, from + 1
}

func (l *changeLog) between(from, to uint64) ([]string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < l.first {
		return nil, false
	}
	return slices.Concat(l.entries[from-l.first : to-l.first]...), true
}
