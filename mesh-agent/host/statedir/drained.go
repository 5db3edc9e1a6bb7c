package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
)

// drained is in a file while the machine is drained.
type drained struct {
	Since time.Time `json:"since"`
	Boot  string    `json:"boot"`
}

func (f *Folder) drainedFile() string { return f.File("drained") }

// SaveDrained saves that the machine is drained, for an agent that starts because this one was
// killed or reloaded. An agent that ends in good order removes it.
func (f *Folder) SaveDrained(since time.Time) error {
	content, err := json.Marshal(drained{since, Boot()})
	if err == nil {
		err = replace.File(f.drainedFile(), append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep that this machine is drained: %w", err)
	}
	return nil
}

// RemoveDrained removes what SaveDrained saved.
func (f *Folder) RemoveDrained() error {
	if err := os.Remove(f.drainedFile()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Drained returns since when the machine is drained, zero if it is not. A machine that was started
// anew is not: nothing of what was drained runs any more.
func (f *Folder) Drained() time.Time {
	var saved drained
	content, err := os.ReadFile(f.drainedFile())
	if err != nil || json.Unmarshal(content, &saved) != nil || saved.Boot != Boot() {
		return time.Time{}
	}
	return saved.Since
}
