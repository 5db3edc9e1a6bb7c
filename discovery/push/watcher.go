package push

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Watcher is told how pushes reach proxies. Its methods must neither block nor call the engine.
type Watcher interface {
	// Joined is called when a proxy connects. It returns who is told of this proxy.
	Joined(s *served.Subscriber, namespace string) Follower
	// Pushing is called when a push begins. It is not called for the first mesh, which changes nothing
	// for anyone.
	Pushing(b Begun)
	// Pushed is called when all proxies have been offered what is new to them.
	Pushed()
	// Refused is called when a proxy refuses something, or something less than before.
	Refused()
}

// Begun is a push that has begun.
type Begun struct {
	// Number counts pushes.
	Number uint64
	// After and Revision are those of the mesh before and now. They are equal if the change comes from
	// elsewhere than the database: a registry, fetched keys, or what is trusted.
	After, Revision int64
	At              time.Time
	// Configured says that configuration of a registry is among what changes.
	Configured bool
}

// Follower is told how pushes reach one proxy. Its methods must neither block nor call the engine.
type Follower interface {
	// Offered is called before the proxy is offered what is new to it, by a push or because it has
	// asked for more.
	Offered()
	// Ran is called when the proxy runs what it was offered.
	Ran(*served.Snapshot)
	// Left is called when the proxy with this subscriber leaves.
	Left(*served.Subscriber)
}

// Watch adds a watcher. Call it before anything else.
func (e *Engine) Watch(w Watcher) {
	if _, none := e.watcher.(nobody); e.watcher != nil && !none {
		w = watchers{e.watcher, w}
	}
	e.watcher, e.answers.watcher = w, w
}

// watchers are several.
type watchers []Watcher

func (all watchers) Joined(s *served.Subscriber, namespace string) Follower {
	var told followers
	for _, w := range all {
		told = append(told, w.Joined(s, namespace))
	}
	return told
}

func (all watchers) Pushing(b Begun) {
	for _, w := range all {
		w.Pushing(b)
	}
}

func (all watchers) Pushed() {
	for _, w := range all {
		w.Pushed()
	}
}

func (all watchers) Refused() {
	for _, w := range all {
		w.Refused()
	}
}

// followers are several, of one proxy.
type followers []Follower

func (all followers) Offered() {
	for _, f := range all {
		f.Offered()
	}
}

func (all followers) Ran(snapshot *served.Snapshot) {
	for _, f := range all {
		f.Ran(snapshot)
	}
}

func (all followers) Left(s *served.Subscriber) {
	for _, f := range all {
		f.Left(s)
	}
}

// nobody watches and follows.
type nobody struct{}

func (nobody) Joined(*served.Subscriber, string) Follower { return nobody{} }
func (nobody) Pushing(Begun)                              {}
func (nobody) Pushed()                                    {}
func (nobody) Refused()                                   {}
func (nobody) Offered()                                   {}
func (nobody) Ran(*served.Snapshot)                       {}
func (nobody) Left(*served.Subscriber)                    {}
