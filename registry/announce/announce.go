// Package announce says what it is to tell a registry elsewhere of services of the mesh, so that
// those outside find them: the way back of package registry.
//
// An implementation is a package beside that of the registry. It is given the services that are
// wanted there, and keeps what it has written equal to them. It takes nothing away but what it knows
// to be its own, and nothing because the mesh cannot be asked.
package announce

import (
	"context"
	"slices"
	"sync"

	"github.com/pgmesh/pgmesh/registry/service"
)

// Announcer writes services into a registry.
type Announcer interface {
	// Name is what the announcer is called there, and tells it from others of the mesh.
	Name() string
	// Selection says which services it writes.
	Selection() Selection
	// Run keeps the registry equal to what is wanted until the context ends, whose error it then
	// returns. Of all that run with the same name, one writes. It leaves no goroutine behind.
	Run(ctx context.Context, wanted *Wanted, reports Reports) error
}

// Annotation on a ServiceEntry has it announced: under the name that it says, or if it says "true"
// under that of the resource. "false" keeps one back where all are announced.
const Annotation = "pgmesh.io/announce"

// Selection says which of the mesh's own services are announced.
type Selection struct {
	// Namespaces are those whose services may be; all if there are none.
	Namespaces []string
	// Every has those without an annotation announced, too.
	Every bool
}

// Takes reports whether a resource is announced, and under which name.
func (s Selection) Takes(namespace, name string, annotations map[string]string) (as string, takes bool) {
	if len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, namespace) {
		return "", false
	}
	switch said := annotations[Annotation]; said {
	case "":
		return name, s.Every
	case "true":
		return name, true
	case "false":
		return "", false
	default:
		return said, true
	}
}

// Reports takes what becomes of announcements. Its methods do not wait for anything.
type Reports interface {
	// Away says that the registry cannot be written to, and why; nil says that it can.
	Away(err error)
	// Bad says what cannot be announced, and why, by resources: all of it.
	Bad(wrong map[string]error)
	// Writes says whether this is the one that writes, and how many instances are there.
	Writes(is bool, instances int)
	// Wrote counts changes that were made.
	Wrote(changes int)
}

// Services are those of a mesh at one moment, by the names of their resources: "shop/web". One whose
// pointer stays the same has not changed. They must not be changed.
type Services struct {
	// Mesh is the id of the mesh.
	Mesh string
	All  map[string]*service.Service
}

// Wanted is what a registry is to have: the newest services, or nothing that is known.
type Wanted struct {
	mu      sync.Mutex
	now     *Services
	changed chan struct{} // closed when now is no longer so
}

// Want makes services those that are wanted. Nil says that it is not known what is: the registry
// stays as it is, and whoever knows more may write.
func (w *Wanted) Want(s *Services) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = s
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// Now returns what is wanted, nil if that is not known, and what is closed when something else is.
func (w *Wanted) Now() (now *Services, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.now, w.changed
}
