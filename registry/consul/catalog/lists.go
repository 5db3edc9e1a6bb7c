package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// lists is how many lists are followed.
const lists = 4

const (
	// waits is how long a list is waited for before it is asked for again: no change tells of rights
	// that a token has lost. Long is how long a service is.
	waits, long = 15 * time.Second, 5 * time.Minute
	// pulse is how long the list of warnings is waited for, which is short: a Consul that hangs is
	// noticed by it.
	pulse = 5 * time.Second
	// early is when an answer without news comes too soon, and rest the pause after it.
	early, rest = time.Second, 100 * time.Millisecond
)

var errBack = errors.New("the index of Consul went back: its state is an older one, or another server answers; everything is read again")

// poll asks for what is later than the last answer, again and again.
func (s *session) poll(ctx context.Context, q client.Query, ask func(client.Query) (client.Meta, error)) error {
	for {
		begun := time.Now()
		meta, err := ask(q)
		if err != nil {
			return err
		}
		if meta.Index < q.After {
			return errBack
		}
		pause := meta.Decoding // a large catalog that changes all the time is read half of the time
		if meta.Index == q.After && time.Since(begun) < early {
			pause = rest
		}
		q.After = meta.Index
		if !wait.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// list asks for a list now, and returns what follows it from then on. Take is called by own, with
// the list before and the next one.
func list[T any](s *session, path string, waits time.Duration, take func(before, now T) error) (first T, follow func() error, err error) {
	q := client.Query{Path: path, Datacenter: s.Datacenter, Consistent: true}
	meta, err := s.Client.Ask(s.ctx, q, &first)
	if err != nil {
		return first, nil, err
	}
	if s.watches.most = s.Watches; meta.Streams {
		s.watches.most = s.Streams
	}
	last := first
	return first, func() error {
		q := client.Query{Path: path, Datacenter: s.Datacenter, After: meta.Index, Wait: waits}
		return s.poll(s.ctx, q, func(q client.Query) (client.Meta, error) {
			q.Known = q.After
			var now T
			meta, err := s.Client.Ask(s.ctx, q, &now)
			if err != nil || meta.Unchanged {
				return meta, err
			}
			before := last
			last = now
			return meta, s.do(func() error { return take(before, now) })
		})
	}, nil
}

// readLists reads the lists, and returns what follows them.
func (s *session) readLists() ([]func() error, error) {
	listed, followNames, err := list(s, "/v1/catalog/services", waits, s.tookNames)
	if err != nil {
		return nil, err
	}
	s.names = listed.lower()
	if err := s.missing(s.names); err != nil {
		return nil, err
	}
	nodes, followNodes, err := list(s, "/v1/catalog/nodes", waits, s.tookNodes)
	if err != nil {
		return nil, err
	}
	s.nodes = nodes
	_, followCritical, err := list(s, "/v1/health/state/critical", waits, s.tookChecks)
	if err != nil {
		return nil, err
	}
	_, followWarnings, err := list(s, "/v1/health/state/warning", pulse, s.tookChecks)
	return []func() error{followNames, followNodes, followCritical, followWarnings}, err
}

// Servers is the service that the servers of Consul are.
const Servers = "consul"

var (
	errNothing = errors.New("Consul shows no service, not even its own: give a token that may read services, with token-file")
	errLost    = errors.New("Consul does not show its own service any more, so the token has lost rights; what was there stays")
)

// missing doubts a list that lacks what every catalog has: Consul leaves out what a token may not
// see, and does not say so.
func (s *session) missing(listed names) error {
	switch _, found := listed[Servers]; {
	case found:
		s.seen = true
	case s.seen:
		return errLost
	case len(listed) == 0 && s.Client.Always.Get("ns") == "":
		return errNothing
	}
	return nil
}

// tookNames has read what is new, gone, or has other tags. Something else may have changed, too.
func (s *session) tookNames(_, listed names) error {
	now := listed.lower()
	if err := s.missing(now); err != nil {
		return err
	}
	before := s.names
	s.names = now
	for name, tags := range now {
		if old, found := before[name]; !found || !sameTags(old, tags) {
			s.queue.readNow(name)
		}
	}
	for name := range before {
		if _, found := now[name]; !found {
			s.queue.readNow(name)
		}
	}
	s.sweep.want(s)
	return nil
}

// sameTags compares what Consul lists in no order.
func sameTags(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// tookNodes has read what is at nodes that have changed or are gone. A sweep looks at those that are new:
// one that has begun before does not know them.
func (s *session) tookNodes(before, now []node) error {
	s.nodes = now
	touched := map[string]bool{}
	old := make(map[string]uint64, len(before))
	for _, n := range before {
		old[n.Node] = n.ModifyIndex
	}
	isNew := false
	for _, n := range now {
		index, found := old[n.Node]
		isNew = isNew || !found
		if delete(old, n.Node); found && index != n.ModifyIndex {
			touched[n.Node] = true
		}
	}
	for gone := range old {
		touched[gone] = true
	}
	s.readAt(touched)
	if isNew {
		s.sweep.want(s)
	}
	return nil
}

// tookChecks has read what has other checks in this state than before.
func (s *session) tookChecks(before, now []check) error {
	differ := map[check]bool{}
	for _, c := range before {
		differ[c] = true
	}
	for _, c := range now {
		if differ[c] {
			delete(differ, c)
		} else {
			differ[c] = true
		}
	}
	at := map[string]bool{}
	for c := range differ {
		if c.ServiceName == "" { // it is the node's own
			at[c.Node] = true
		} else {
			s.queue.readNow(strings.ToLower(c.ServiceName))
		}
	}
	s.readAt(at)
	return nil
}

// readAt has read what has an instance at one of the nodes.
func (s *session) readAt(nodes map[string]bool) {
	if len(nodes) == 0 {
		return
	}
	for name, k := range s.services {
		if slices.ContainsFunc(k.nodes, func(n string) bool { return nodes[n] }) {
			s.queue.readNow(name)
		}
	}
}
