// Package follow has something done for each object of a cluster that is there, has changed, or is
// gone. It is the least of what controllers are built on: without caches, so that who is told looks
// itself what there is.
package follow

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
)

// Cluster is one that is followed until the context ends.
type Cluster struct {
	client.WithWatch

	// Log is told of what failed, and is tried again.
	Log func(format string, arguments ...any)

	context context.Context //nolint:containedctx // it is how long the cluster is followed
	running sync.WaitGroup
}

// Begin follows a cluster.
func Begin(ctx context.Context, c client.WithWatch, log func(string, ...any)) *Cluster {
	return &Cluster{WithWatch: c, Log: log, context: ctx}
}

// Wait returns when nothing is done any more: the context has ended.
func (c *Cluster) Wait() { c.running.Wait() }

// Queue has objects about which something is to be done, one after the other.
type Queue struct {
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// Add adds an object. One that waits already is not added again.
func (q *Queue) Add(of types.NamespacedName) { q.queue.Add(of) }

// Do returns a queue whose objects something is done about. What fails is tried again.
func (c *Cluster) Do(what string, do func(context.Context, types.NamespacedName) error) *Queue {
	q := &Queue{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())}
	context.AfterFunc(c.context, q.queue.ShutDown)
	c.running.Go(func() {
		for {
			of, ended := q.queue.Get()
			if ended {
				return
			}
			err := do(c.context, of)
			q.queue.Done(of)
			if err == nil || c.context.Err() != nil {
				q.queue.Forget(of)
				continue
			}
			c.Log("%s %s: %v", what, of, err)
			q.queue.AddRateLimited(of)
		}
	})
	return q
}

// Watch has somebody told of each object of a kind, which a list stands for.
func (c *Cluster) Watch(kind client.ObjectList, told func(client.Object)) {
	l := &list{Cluster: c, kind: kind, told: told, known: map[types.NamespacedName]client.Object{}}
	loop := retry.Loop{Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: time.Second}}
	c.running.Go(func() {
		for { // a watch that has ended begins anew
			if loop.Until(c.context, l.follow) != nil {
				return
			}
		}
	})
}

// list is what is known of a kind.
type list struct {
	*Cluster

	kind  client.ObjectList
	told  func(client.Object)
	known map[types.NamespacedName]client.Object
}

// follow lists what there is, and then watches what changes.
func (l *list) follow() error {
	all := l.kind.DeepCopyObject().(client.ObjectList)
	if err := l.List(l.context, all); err != nil {
		return err
	}
	gone := l.known
	l.known = map[types.NamespacedName]client.Object{}
	err := meta.EachListItem(all, func(o runtime.Object) error {
		delete(gone, client.ObjectKeyFromObject(o.(client.Object)))
		l.hear(o.(client.Object))
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range gone {
		l.told(o)
	}
	changes, err := l.WithWatch.Watch(l.context, all, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: all.GetResourceVersion()}})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for event := range changes.ResultChan() {
		switch event.Type {
		case watch.Error:
			return apierrors.FromObject(event.Object)
		case watch.Deleted:
			o := event.Object.(client.Object)
			delete(l.known, client.ObjectKeyFromObject(o))
			l.told(o)
		default:
			l.hear(event.Object.(client.Object))
		}
	}
	return nil
}

func (l *list) hear(o client.Object) {
	l.known[client.ObjectKeyFromObject(o)] = o
	l.told(o)
}
