// Package journal gives a test a log that it can read while programs write it.
package journal

import (
	"strings"
	"sync"
)

// Journal is such a log. Its zero value is an empty one.
type Journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
