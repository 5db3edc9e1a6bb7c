package catalog

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// session is what is known of the catalog for as long as every question is answered. All of it
// belongs to the goroutine of own; others give it functions to call.
type session struct {
	*Catalog

	ctx      context.Context //nolint:containedctx // a session is as long as its context
	listener Listener
	calls    chan func() error
	queue    *queue

	services map[string]*known
	at       map[string]map[string]int // how many instances services have at nodes
	names    names
	nodes    []node
	unread   int // how many services are still to be read at first
	changed  map[string][]Instance
	spoilt   map[string]bool // what could not be read
	watches  *watches
	sweep    sweep
}

// known is what is known of a service.
type known struct {
	index    uint64
	nodes    []string // those of its instances
	filtered bool
}

func (c *Catalog) session(ctx context.Context, listener Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	s := &session{
		Catalog: c, ctx: ctx, listener: listener, calls: make(chan func() error, readers), queue: newQueue(),
		services: map[string]*known{}, at: map[string]map[string]int{}, changed: map[string][]Instance{}, spoilt: map[string]bool{},
	}
	s.watches = &watches{session: s, group: group, running: map[string]*watch{}}
	group.Go(func() error { return s.begin(group) })
	err := group.Wait()
	if s.unread == 0 && len(s.services) > 0 {
		c.known = s.services
	}
	return err
}

// begin reads the lists, before the services: what changes later, the lists tell of.
func (s *session) begin(group *errgroup.Group) error {
	polls, err := s.readLists()
	if err != nil {
		return err
	}
	s.queue.readLater(s.all())
	if s.unread = len(s.names); s.unread == 0 {
		s.everythingIsRead()
	}
	for i := range readers + urgent {
		group.Go(func() error { return s.work(i < urgent) })
	}
	for _, poll := range append(polls, s.readsAgain) {
		group.Go(poll)
	}
	return s.own()
}

// own calls what the other goroutines want, and tells of what has changed when there is no more, or
// when there is always more.
func (s *session) own() error {
	for n := 0; ; n++ {
		if len(s.calls) == 0 || n%readers == 0 {
			s.tell()
		}
		select {
		case call := <-s.calls:
			if err := call(); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// do has own call something.
func (s *session) do(call func() error) error {
	select {
	case s.calls <- call:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *session) tell() {
	if s.unread == 0 && len(s.changed) > 0 {
		s.listener.Changed(s.changed)
		s.changed = map[string][]Instance{}
	}
}

// work reads what is to be read, one after the other.
func (s *session) work(urgentAlone bool) error {
	for {
		next, err := s.queue.next(s.ctx, urgentAlone)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := s.attend(next); err != nil {
			return err
		}
		if next.later && s.sweep.tired.Load() && !wait.For(s.ctx, time.Since(begun)) {
			return s.ctx.Err()
		}
	}
}

func (s *session) attend(next reading) error {
	if next.node {
		return s.look(next)
	}
	return s.read(client.Query{Known: next.known, Consistent: !next.later}, next)
}

// read asks for a service, and has own take the answer.
func (s *session) read(q client.Query, about reading) error {
	a, err := s.ask(s.ctx, q, about.name)
	if err != nil && !spoilsOne(err) {
		return err
	}
	return s.do(func() error {
		s.took(about.name, a, err)
		if about.later {
			s.lookedAt(about.round)
		}
		return nil
	})
}

// answer is what Consul says of a service.
type answer struct {
	client.Meta

	instances []Instance
}

func (s *session) ask(ctx context.Context, q client.Query, name string) (answer, error) {
	q.Path, q.Datacenter = "/v1/health/service/"+escaped(name), s.Datacenter
	var entries []entry
	meta, err := s.Client.Ask(ctx, q, &entries)
	return answer{meta, instances(entries)}, err
}

// spoilsOne reports whether a failure says that one service cannot be read, and nothing of others.
func spoilsOne(err error) bool {
	if refusal, is := errors.AsType[*client.Refusal](err); is {
		return refusal.Concerns()
	}
	_, is := errors.AsType[*client.Garbage](err)
	return is
}

var errRights = errors.New("the token may no longer see all instances: give it node:read and service:read; what was there stays")

// took takes an answer about a service, unless a later one was there before.
func (s *session) took(name string, a answer, err error) {
	before := s.services[name]
	if a.Unchanged || err == nil && before != nil && a.Index < before.index {
		return
	}
	if before == nil {
		before = s.Catalog.known[name]
	}
	if err == nil && a.Filtered && before != nil && !before.filtered && len(a.instances) < len(before.nodes) {
		err = errRights
	}
	if s.listener.Bad(name, err); err != nil {
		s.spoilt[name] = true
		return
	}
	delete(s.spoilt, name)
	s.changed[name] = a.instances
	s.place(name, nodesOf(a.instances))
	if len(a.instances) == 0 && s.names[name] == nil {
		delete(s.services, name)
		s.watches.end(name)
		return
	}
	s.services[name] = &known{a.Index, nodesOf(a.instances), a.Filtered}
	if s.unread == 0 {
		s.watches.begin(name, a.Index)
	}
}

// readsAgain reads what could not be read before: what mends it may change nothing else.
func (s *session) readsAgain() error {
	for wait.For(s.ctx, pulse) {
		if err := s.do(func() error {
			for name := range s.spoilt {
				s.queue.readNow(name)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return s.ctx.Err()
}

// lookedAt counts what was read without haste.
func (s *session) lookedAt(round int) {
	if s.unread == 0 {
		s.sweep.lookedAt(round)
		return
	}
	if s.unread--; s.unread == 0 {
		s.everythingIsRead()
	}
}

func (s *session) everythingIsRead() {
	s.listener.Away(nil)
	s.listener.All(s.changed)
	s.changed = map[string][]Instance{}
	s.watches.fill()
	s.sweep.begin(s)
}

func nodesOf(all []Instance) []string {
	nodes := make([]string, len(all))
	for i := range all {
		nodes[i] = all[i].Node
	}
	return nodes
}

// all are the services of the list.
func (s *session) all() []reading {
	all := make([]reading, 0, len(s.names))
	for name := range s.names {
		all = append(all, reading{name: name, later: true})
	}
	return all
}

// lower makes the keys lower case.
func (n names) lower() names {
	out := make(names, len(n))
	for name, tags := range n {
		key := strings.ToLower(name)
		out[key] = append(out[key], tags...)
		if out[key] == nil {
			out[key] = []string{}
		}
	}
	return out
}
