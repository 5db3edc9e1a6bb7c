package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
	"github.com/pgmesh/pgmesh/registry/kubernetes/follow"
)

// group are lists that mean something together: those of services, or those of one kind.
type group struct {
	// entry is what the entries of its resources begin with.
	entry string
	parts []*part
	given bool // its resources are among those of the last Replace
	bad   bool // it was told to be
	ended bool // it is followed no more
	// needed says that nothing can be told before it was read.
	needed bool
}

// part is one list of a group.
type part struct {
	group *group
	name  string // services, virtualservices.networking.istio.io
	read  bool
	away  error
	since time.Time // it is away
}

func (g *group) read() bool {
	return !slices.ContainsFunc(g.parts, func(p *part) bool { return !p.read })
}

// patience is how long a list may fail at first that others wait for.
const patience = 5 * time.Second

// refused is why the group was never read, if others do not wait for it: the cluster forbids it, or
// cannot give it for some time, and gives others.
func (g *group) refused(others bool) error {
	if g.needed {
		return nil
	}
	for _, p := range g.parts {
		if !p.read && (forbidden(p.away) || others && broken(p.away) && time.Since(p.since) >= patience) {
			return fmt.Errorf("%s: %w", p.name, p.away)
		}
	}
	return nil
}

func forbidden(err error) bool {
	refusal, is := errors.AsType[*client.Refusal](err)
	return is && refusal.Forbidden()
}

// broken reports whether an answer may be about what was asked for, and not about the cluster.
func broken(err error) bool {
	if refusal, is := errors.AsType[*client.Refusal](err); is {
		return refusal.Broken()
	}
	_, garbage := errors.AsType[*client.Garbage](err)
	return garbage
}

// gives reports whether the cluster has given some group.
func (m *mesh) gives() bool {
	return slices.ContainsFunc(m.groups, func(g *group) bool { return !g.needed && len(g.parts) > 0 && g.read() })
}

func (m *mesh) newGroup(entry string) *group {
	g := &group{entry: entry}
	m.groups = append(m.groups, g)
	return g
}

// add adds a list to a group.
func (g *group) add(name string) *part {
	p := &part{group: g, name: name}
	g.parts = append(g.parts, p)
	return p
}

// list is what the mesh does with what a list tells. It is a follow.Listener.
type list[T follow.Object] struct {
	*mesh

	part    *part
	all     func([]T)
	changed func(T)
	gone    func(T)
	missing func() // nil where what is missing is an error
}

// All implements follow.Listener.
func (l *list[T]) All(objects []T) {
	l.heard(func() {
		l.all(objects)
		l.part.read = true
	})
}

// Changed implements follow.Listener.
func (l *list[T]) Changed(object T) { l.heard(func() { l.changed(object) }) }

// Gone implements follow.Listener.
func (l *list[T]) Gone(object T) { l.heard(func() { l.gone(object) }) }

// Away implements follow.Listener.
func (l *list[T]) Away(err error) {
	l.heard(func() {
		if l.part.away == nil {
			l.part.since = time.Now()
		}
		l.part.away = err
	})
	if refusal, is := errors.AsType[*client.Refusal](err); is && refusal.Missing() && l.missing != nil {
		l.missing()
	}
}

// heard takes what a list says, unless nobody follows it any more.
func (l *list[T]) heard(change func()) {
	l.do(func() {
		if !l.part.group.ended {
			change()
		}
	})
}

// reasons says why lists cannot be read: each reason once, with the lists that it is of.
func (m *mesh) reasons() error {
	of := map[string][]string{}
	parts := 0
	for _, g := range m.groups {
		for _, p := range g.parts {
			if parts++; p.away != nil {
				of[p.away.Error()] = append(of[p.away.Error()], p.name)
			}
		}
	}
	var texts []string
	for _, reason := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(len(of[b])-len(of[a]), strings.Compare(a, b)) }) {
		if names := of[reason]; len(names) < parts {
			reason = named(names) + ": " + reason
		}
		texts = append(texts, reason)
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// mostNamed bounds how many lists a reason names.
const mostNamed = 3

func named(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
