package push

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Watcher is told how pushes reach proxies. Its methods must neither block nor call the engine.
type Watcher interface {
	// Joined is called when a proxy connects, and Left when it leaves.
	Joined(s *served.Subscriber, namespace string)
	Left(s *served.Subscriber)
	// Pushing is called when a push begins that brings proxies from one revision to another. It is
	// not called for the first mesh, which changes nothing for anyone.
	Pushing(after, revision int64, begun time.Time)
	// Offered is called before a proxy is offered what is new to it.
	Offered(s *served.Subscriber)
	// Pushed is called when all proxies have been offered what is new to them.
	Pushed()
	// Ran is called when a proxy runs what it was offered at a revision.
	Ran(s *served.Subscriber, revision string)
}

// Watch sets the watcher. Call it before anything else.
func (e *Engine) Watch(w Watcher) { e.watcher, e.answers.watcher = w, w }

// nobody watches.
type nobody struct{}

func (nobody) Joined(*served.Subscriber, string) {}
func (nobody) Left(*served.Subscriber)           {}
func (nobody) Pushing(int64, int64, time.Time)   {}
func (nobody) Offered(*served.Subscriber)        {}
func (nobody) Pushed()                           {}
func (nobody) Ran(*served.Subscriber, string)    {}

// Ran tells the watcher.
func (a *answers) Ran(s *ads.Stream, snapshot *served.Snapshot) {
	a.watcher.Ran(s.Subscriber(), snapshot.Revision)
}
