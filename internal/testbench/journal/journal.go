// Package journal is a log that tests can read while programs write to it.
package journal

import (
	"strings"
	"sync"
)

// Journal collects what is written to it. Its zero value is empty and ready to use.
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
