package register

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	// healthFile is the name of the file in the state folder.
	healthFile = "well"
	// saveInterval is how often the file is written at least, and maxAge how old it may be to count:
	// it bridges a restart of the agent, and not an agent that was off for long.
	saveInterval = 15 * time.Second
	maxAge       = time.Minute
)

// savedHealth names the services that were healthy, for the next agent. They stay healthy until its
// own probes say otherwise, so that a restart of the agent goes unnoticed. After a reboot they
// count as unhealthy, although their entries may still say otherwise. An older file counts for
// nothing.
type savedHealth struct {
	Boot string    `json:"boot"`
	At   time.Time `json:"at"`
	Well []string  `json:"well"` // their groups
}

// restoreHealth loads what the agent before saved.
func (a *Agent) restoreHealth() {
	if a.o.Folder == "" {
		return
	}
	content, err := os.ReadFile(a.healthPath())
	if err != nil {
		return // usually there is no file
	}
	var saved savedHealth
	age := func() time.Duration { return time.Since(saved.At).Abs() }
	if json.Unmarshal(content, &saved) != nil {
		return
	}
	health, detail := machinev1.Health_HEALTH_HEALTHY, ""
	if saved.Boot != statedir.Boot() {
		health, detail = machinev1.Health_HEALTH_UNHEALTHY, "the machine was started, and the service was not asked since"
	} else if age() > maxAge {
		return
	}
	for _, group := range saved.Well {
		if s := a.services[group]; s != nil {
			s.health, s.detail, s.since, s.inherited = health, detail, time.Now(), true
		}
	}
}

// saveHealth saves the health at intervals and at each change, until the context ends.
func (a *Agent) saveHealth(ctx context.Context) {
	if a.o.Folder == "" {
		return
	}
	again := time.NewTicker(saveInterval)
	defer again.Stop()
	for {
		if err := a.writeHealthFile(); err != nil {
			a.o.Log.Warn("cannot save which services are healthy; after a restart they get no requests until they are probed", "error", err)
		}
		select {
		case <-again.C:
		case <-a.saveDue:
		case <-ctx.Done():
			return
		}
	}
}

// writeHealthFile saves which services are healthy. If none is, there is no file.
func (a *Agent) writeHealthFile() error {
	saved := savedHealth{Boot: statedir.Boot(), At: time.Now(), Well: a.healthyGroups()}
	if len(saved.Well) == 0 {
		return a.removeHealthFile()
	}
	content, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	return replace.File(a.healthPath(), content)
}

// removeHealthFile is for a machine that has left: when it returns, its services have to be probed
// first.
func (a *Agent) removeHealthFile() error {
	if err := os.Remove(a.healthPath()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (a *Agent) healthyGroups() (groups []string) {
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

func (a *Agent) healthPath() string { return filepath.Join(a.o.Folder, healthFile) }
