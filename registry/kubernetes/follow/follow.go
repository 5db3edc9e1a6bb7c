// Package follow keeps a list of a Kubernetes cluster as new as the cluster's: it reads all of it,
// and then each change.
//
// A change is never missed: each has a version, from which a watch that has ended, or broken, goes
// on. Where the cluster does not know a version any more, the list is read anew.
package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
)

// Object is what is kept of an object: the fields that are read from JSON.
type Object interface {
	// Version is metadata.resourceVersion.
	Version() string
}

// Compact is what objects implement, by their pointers, that can be read from protobuf, too.
type Compact interface {
	// ReadProtobuf reads the message of an object, and keeps nothing of it.
	ReadProtobuf(message []byte) error
}

// Listener is told what a list has, from one goroutine.
type Listener[T Object] interface {
	// All tells of everything there is, at first, and after changes may have been missed.
	All(objects []T)
	// Changed tells of an object that is new or different.
	Changed(object T)
	// Gone tells of an object that was removed, as it was at last.
	Gone(object T)
	// Away says that the list cannot be read, and why; nil that it can.
	Away(err error)
}

// List is a list with its changes.
type List[T Object] struct {
	Client *client.Client
	// Path is where the list is, and which part of it: /api/v1/pods?labelSelector=app.
	Path string
}

// MostObjects bounds what a list may make us keep.
const MostObjects = 500_000

const (
	// stable is how long a watch lasts that is no failure to begin one.
	stable = 10 * time.Second
	// brief is how short a watch without a change must be to be no watch.
	brief = time.Second / 2
)

// What has the next attempt wait, and is no reason to say that the list cannot be read: a server that
// ends each watch at once, or knows no version of its own, is not to be asked all the time.
var (
	errBrief = errors.New("the watch has ended at once")
	errAnew  = errors.New("the list has to be read anew")
)

func away(err error) bool { return err != nil && !errors.Is(err, errBrief) && !errors.Is(err, errAnew) }

// Run follows the list until the context ends, whose error it returns.
func (l *List[T]) Run(ctx context.Context, listener Listener[T]) error {
	f := &following[T]{List: l, listener: listener}
	loop := retry.Loop{Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}, Stable: stable}
	return loop.Forever(ctx, func(works func()) error {
		err := f.attempt(ctx, works)
		if ctx.Err() == nil && away(err) {
			listener.Away(err)
		}
		return err
	})
}

// following is how far a list was followed.
type following[T Object] struct {
	*List[T]

	listener Listener[T]
	version  string // from which changes follow; "" if the list has to be read
	broken   bool   // the last watch did not end well
}

func (f *following[T]) attempt(ctx context.Context, works func()) error {
	if err := f.begin(ctx); err != nil {
		return err
	}
	begun, changes := time.Now(), 0
	err := f.Client.Watch(ctx, f.Path, f.version, compact[T](), func() { f.listener.Away(nil) }, func(e client.Event) error {
		if e.Type != client.Bookmark {
			changes++
		}
		return f.take(e)
	})
	if f.broken = err != nil; changes > 0 {
		works()
	}
	if refusal, is := errors.AsType[*client.Refusal](err); is && refusal.Outdated() {
		f.version = ""
		return errAnew
	}
	if _, is := errors.AsType[*client.Garbage](err); is {
		f.version = ""
	}
	if err == nil && changes == 0 && time.Since(begun) < brief {
		return errBrief
	}
	return err
}

// begin reads the list where it has to be. A cluster whose backup was restored meanwhile has an older
// version than ours, and would silently tell of nothing until it has reached that again.
func (f *following[T]) begin(ctx context.Context) error {
	if f.version != "" && f.broken {
		now, err := f.Client.Version(ctx, f.Path)
		if err != nil {
			return err
		}
		if older(now, f.version) {
			f.version = ""
		}
	}
	if f.version != "" {
		return nil
	}
	return f.readAll(ctx)
}

// older compares versions, which are numbers in all servers that there are.
func older(a, b string) bool {
	first, err := strconv.ParseUint(a, 10, 64)
	second, other := strconv.ParseUint(b, 10, 64)
	return err == nil && other == nil && first < second
}

func (f *following[T]) readAll(ctx context.Context) error {
	var all []T
	add := func(object *T, err error) error {
		if err != nil {
			return err
		}
		if all = append(all, *object); len(all) > MostObjects {
			return client.Unreadable(fmt.Errorf("the list has more than %d objects", MostObjects))
		}
		return nil
	}
	objects := client.Objects{JSON: func(d *json.Decoder) error {
		object := new(T)
		return add(object, d.Decode(object))
	}}
	if compact[T]() {
		objects.Protobuf = func(message []byte) error { return add(fromProtobuf[T](message)) }
	}
	version, err := f.Client.List(ctx, f.Path, objects)
	if err != nil {
		return err
	}
	f.listener.All(all)
	f.version = version
	return nil
}

// compact reports whether objects can be read from protobuf.
func compact[T Object]() bool {
	_, is := any(new(T)).(Compact)
	return is
}

func fromProtobuf[T Object](message []byte) (*T, error) {
	object := new(T)
	if err := any(object).(Compact).ReadProtobuf(message); err != nil {
		return nil, client.Unreadable(err)
	}
	return object, nil
}

// objectOf reads the object of an event.
func objectOf[T Object](e client.Event) (*T, error) {
	if e.Message != nil {
		return fromProtobuf[T](e.Message)
	}
	object := new(T)
	if err := json.Unmarshal(e.Object, object); err != nil {
		return nil, client.Unreadable(err)
	}
	return object, nil
}

// take tells of an event. It is what the next watch begins after.
func (f *following[T]) take(e client.Event) error {
	read, err := objectOf[T](e)
	if err != nil {
		return err
	}
	object := *read
	if object.Version() == "" {
		return client.Unreadable(errors.New("an event has no version"))
	}
	switch e.Type {
	case client.Added, client.Modified:
		f.listener.Changed(object)
	case client.Deleted:
		f.listener.Gone(object)
	}
	f.version = object.Version()
	return nil
}
