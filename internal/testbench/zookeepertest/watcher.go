package zookeepertest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// Watcher is a client of its own that watches one node or list at a time, and reads what is new. No
// other client can be told sooner.
type Watcher struct {
	t    testing.TB
	conn *zk.Conn
}

// Watcher connects one, which ends with the test.
func (z *ZooKeeper) Watcher() *Watcher {
	z.Client.t.Helper()
	w := &Watcher{z.Client.t, z.another(z.Address)}
	z.Client.t.Cleanup(w.conn.Close)
	return w
}

// Node returns when the watcher has the next content of a node.
func (w *Watcher) Node(node string) <-chan time.Time {
	w.t.Helper()
	_, _, happens, err := w.conn.GetW(node)
	return w.has(happens, err, func() { _, _, _ = w.conn.Get(node) })
}

// Children returns when the watcher has the next children of a node.
func (w *Watcher) Children(node string) <-chan time.Time {
	w.t.Helper()
	_, _, happens, err := w.conn.ChildrenW(node)
	return w.has(happens, err, func() { _, _, _ = w.conn.Children(node) })
}

func (w *Watcher) has(happens <-chan zk.Event, err error, read func()) <-chan time.Time {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	has := make(chan time.Time, 1)
	go func() {
		<-happens
		read()
		has <- time.Now()
	}()
	return has
}
