package registry

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// Status says what became of a resource of a registry.
type Status struct {
	// Resource is the state that it is about, as the registry gave it.
	Resource   *kinds.Resource
	Conditions []Condition
	// Own is the status in the shape of the resource's API, as JSON, where that is not a list of
	// conditions: nil for most kinds, and where it is not known.
	Own json.RawMessage
}

// Condition is one of Kubernetes' sort.
type Condition struct {
	Type, Status, Reason, Message string
}

// StatusWriter is a registry that can show what became of resources where they are kept. Of the
// servers of a mesh one has it do so.
type StatusWriter interface {
	Registry
	// WritesStatuses reports whether the settings ask for it. If not, nothing is ever written.
	WritesStatuses() bool
	// WriteStatuses writes what the channel brings until the context ends, whose error it returns.
	// What it brings is everything that is known now. Run has to run beside it.
	WriteStatuses(ctx context.Context, from <-chan []Status) error
	// Writes says how far that has come.
	Writes() Writes
}

// Writes is how far a registry has come with writing statuses.
type Writes struct {
	// Done, Conflicts and Failed count what was written, what somebody else had changed meanwhile, and
	// what the registry did not take.
	Done, Conflicts, Failed uint64
	// Waiting is how many statuses are to be written, and Since when the first of them was to be.
	Waiting int
	Since   time.Time
}

// Unusable are the conditions of what is no resource of the mesh, and why not.
func Unusable(reason string) []Condition {
	return []Condition{
		{Type: "Accepted", Status: "False", Reason: "Invalid", Message: reason},
		{Type: "Programmed", Status: "False", Reason: "Invalid", Message: "proxies go on with the state before, if there was one"},
	}
}
