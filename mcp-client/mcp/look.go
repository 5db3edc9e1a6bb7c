package mcp

import (
	"runtime"
	"slices"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
)

// look is what was found out of one resource by looking at it alone.
type look struct {
	opened

	now version // with the resource, if it was made
	err error
}

// lookAtOnce is how many resources of a response are looked at before they are taken in: a state of the world may be very large, and
// what is found out of a resource is as large as a small one.
const lookAtOnce = 1024

// worthSharing is how many resources are at least worth a goroutine.
const worthSharing = 64

// lookAt takes resources out of their envelopes and makes those that say something new, which is nearly all of the work for a large
// mesh. So the processors share it. The list is not changed meanwhile. What it returns is there until the next call.
func (s *session) lookAt(kind *kinds.Kind, l *list, items []item) []look {
	s.looks = slices.Grow(s.looks[:0], len(items))
	looks := s.looks[:len(items)]
	shared(len(items), func(i int) { s.look(kind, l, items[i], &looks[i]) })
	return looks
}

// shared does something to each of so many resources, on all processors if there are enough of them.
func shared(resources int, do func(int)) {
	workers := max(1, min(runtime.GOMAXPROCS(0), resources/worthSharing))
	var working sync.WaitGroup
	for w := range workers {
		from, to := resources*w/workers, resources*(w+1)/workers
		working.Go(func() {
			for i := from; i < to; i++ {
				do(i)
			}
		})
	}
	working.Wait()
}

func (s *session) look(kind *kinds.Kind, l *list, it item, k *look) {
	if k.opened, k.err = open(kind, it); k.err != nil {
		return
	}
	k.now.named = k.named
	if !s.pgmesh || k.named == "" {
		k.now.content = k.digest()
	}
	if k.isNews(l) {
		k.now.resource, k.err = k.decode()
	}
}

// isNews tells whether a list has something else of the resource.
func (k *look) isNews(l *list) bool {
	had := l.find(k.name)
	return had == nil || !had.same(&k.now)
}
