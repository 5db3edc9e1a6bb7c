package register

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/statedir"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	// wellFile is the name of the file in the state folder.
	wellFile = "well"
	// wellAgain is how often it is written again, and wellFor how long it counts.
	wellAgain = 15 * time.Second
	wellFor   = time.Minute
)

// wellness is what an agent leaves to the next about its services: those that were well. They are so for the next agent, until its own probes say
// otherwise: a restarted agent must not be noticed. After a restart of the machine they are not well, although their entries may still say so.
// What is older counts for nothing.
type wellness struct {
	Boot string    `json:"boot"`
	At   time.Time `json:"at"`
	Well []string  `json:"well"` // groups
}

// inherit takes over what the agent before has left.
func (a *Agent) inherit() {
	if a.o.Folder == "" {
		return
	}
	content, err := os.ReadFile(a.wellPath())
	if err != nil {
		return // there need be none
	}
	var left wellness
	age := func() time.Duration { return time.Since(left.At).Abs() }
	if json.Unmarshal(content, &left) != nil {
		return
	}
	health, detail := machinev1.Health_HEALTH_HEALTHY, ""
	if left.Boot != statedir.Boot() {
		health, detail = machinev1.Health_HEALTH_UNHEALTHY, "the machine was started, and the service was not asked since"
	} else if age() > wellFor {
		return
	}
	for _, group := range left.Well {
		if s := a.services[group]; s != nil {
			s.health, s.detail, s.since, s.inherited = health, detail, time.Now(), true
		}
	}
}

// bequeath keeps what the next agent inherits new, until the context ends.
func (a *Agent) bequeath(ctx context.Context) {
	if a.o.Folder == "" {
		return
	}
	again := time.NewTicker(wellAgain)
	defer again.Stop()
	for {
		if err := a.keepWell(); err != nil {
			a.o.Log.Warn("an agent that is started anew will not know which services are well, and has them sent nothing until it has asked them", "error", err)
		}
		select {
		case <-again.C:
		case <-a.better:
		case <-ctx.Done():
			return
		}
	}
}

// keepWell writes down which services are well. Where none is, there is no file.
func (a *Agent) keepWell() error {
	left := wellness{Boot: statedir.Boot(), At: time.Now(), Well: a.well()}
	if len(left.Well) == 0 {
		return a.forgetWell()
	}
	content, err := json.Marshal(left)
	if err != nil {
		return err
	}
	return replace.File(a.wellPath(), content)
}

// forgetWell is for a machine that has left: what is there when it comes back has to be asked.
func (a *Agent) forgetWell() error {
	if err := os.Remove(a.wellPath()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (a *Agent) well() (groups []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for group, s := range a.services {
		if s.health == machinev1.Health_HEALTH_HEALTHY {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

func (a *Agent) wellPath() string { return filepath.Join(a.o.Folder, wellFile) }
