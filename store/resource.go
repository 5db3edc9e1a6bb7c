package store

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// Revision numbers a committed transaction that changed resources. The first is 1; 0 is the empty
// mesh before it.
type Revision = int64

// Resource is a resource at a revision.
type Resource struct {
	Key         kinds.Key
	Labels      map[string]string
	Annotations map[string]string
	Spec        json.RawMessage
	Revision    Revision // the revision that changed it last
	Generation  int64    // how often its spec has changed
	Created     time.Time
	Updated     time.Time

	// Unchecked is set, only in snapshots, if the current rules did not check the resource: it came
	// around the triggers, or is older than the rules and breaks them. mesh.unsound says what is
	// wrong.
	Unchecked bool
}

// Operation is what a revision, or a diff, does to a resource.
type Operation string

// The operations.
const (
	Create Operation = "create"
	Update Operation = "update"
	Delete Operation = "delete"
)

// Skipped names a resource that was left out, because this program does not know its kind.
type Skipped struct {
	Group, Kind, Namespace, Name string
	Revision                     Revision
}

// unknownKinds records which kinds were logged.
type unknownKinds struct{ logged sync.Map }

// Skip reports that a resource was left out.
func (s *Store) Skip(skipped Skipped) {
	if s.options.Skipped != nil {
		s.options.Skipped(skipped)
		return
	}
	if _, again := s.unknown.logged.LoadOrStore([2]string{skipped.Group, skipped.Kind}, true); !again {
		s.options.Log.Warn("left out resources of a kind that this program does not know: upgrade it",
			"api_group", skipped.Group, "kind", skipped.Kind, "first", skipped.Namespace+"/"+skipped.Name)
	}
}
