package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgmesh/pgmesh/registry/zookeeper/client"
)

// round is one look at some nodes, level by level.
type round struct {
	*session

	all  bool              // look at everything, also where nothing is new
	todo []map[string]bool // paths by level
	told []Leaf
}

// look looks at what is dirty, and at what turns out to be new. What it returns is true, also if
// there is an error.
func (s *session) look(ctx context.Context, dirty map[string]bool, all bool) ([]Leaf, error) {
	r := &round{session: s, all: all, todo: make([]map[string]bool, s.Lists+1)}
	for i := range r.todo {
		r.todo[i] = map[string]bool{}
	}
	for path := range dirty {
		r.todo[levelOf(path)][path] = true
	}
	if all {
		r.todo[0][""] = true
	}
	for level := range s.Lists {
		if err := r.lookAtLists(ctx, level); err != nil {
			return r.told, err
		}
	}
	return r.told, r.lookAtLeaves(ctx)
}

// nodesAt are the nodes of a level to look at.
func (r *round) nodesAt(level int) (paths, nodes []string) {
	for path := range r.todo[level] {
		paths, nodes = append(paths, path), append(nodes, r.node(path))
	}
	return paths, nodes
}

func (r *round) lookAtLists(ctx context.Context, level int) error {
	paths, nodes := r.nodesAt(level)
	answers, err := r.conn.Children(ctx, nodes, r.each)
	if err != nil {
		return err
	}
	for i, path := range paths {
		switch err := answers[i].Err; {
		case path == "" && err != nil:
			err = r.noRoot(ctx, err)
			if err != nil {
				return err
			}
		case errors.Is(err, client.NoNode):
			r.gone(path)
		case err != nil:
			r.failedAt(path, err)
		default:
			r.readable(path)
			r.list(level, path, answers[i].Names)
		}
	}
	if r.nodes > mostNodes {
		return fmt.Errorf("%s has more than %d nodes below it: read less of it, by path", r.Root, mostNodes)
	}
	return nil
}

// noRoot deals with a root that cannot be listed. If there is none because nothing was registered
// yet, or all of it was removed before our eyes, that is how it is. If it is gone after a session was
// lost, or since the last run, this may be another ZooKeeper, or one that has lost everything.
func (r *round) noRoot(ctx context.Context, why error) error {
	switch {
	case !errors.Is(why, client.NoNode):
		return fmt.Errorf("%s: %w", r.Root, why)
	case r.Before, r.all && len(r.lists[""]) > 0:
		return fmt.Errorf("there is no node %s any more, and there were services below it: create it if it is to be empty", r.Root)
	}
	for name := range r.lists[""] {
		r.todo[1][name] = true
	}
	r.failedAt("", fmt.Errorf("there is no node %s: is path right? It comes with the first service", r.Root))
	if !r.each {
		return nil
	}
	there, err := r.conn.AwaitNode(ctx, r.Root)
	if there {
		r.mark("")
	}
	return err
}

// list takes the names of the children of a node.
func (r *round) list(level int, path string, names []string) {
	if r.know(path); path == "" {
		r.Before = false
	}
	before := r.lists[path]
	now := make(map[string]bool, len(names))
	for _, name := range names {
		if !r.wanted(level, name) {
			continue
		}
		now[name] = true
		if child := join(path, name); r.all || !before[name] {
			r.todo[level+1][child] = true
		}
	}
	for name := range before {
		if !now[name] {
			r.gone(join(path, name))
		}
	}
	r.nodes += len(now) - len(r.lists[path])
	r.lists[path] = now
}

// know notes that there is a node.
func (r *round) know(path string) {
	if path == "" {
		return
	}
	list, name := split(path)
	if r.lists[list][name] {
		return
	}
	r.know(list)
	if r.lists[list] == nil {
		r.lists[list] = map[string]bool{}
	}
	r.lists[list][name] = true
	r.nodes++
}

// gone forgets a node and what is below it.
func (r *round) gone(path string) {
	for name := range r.lists[path] {
		r.gone(join(path, name))
	}
	delete(r.lists, path)
	list, name := split(path)
	known := r.lists[list][name]
	if known {
		delete(r.lists[list], name)
		r.nodes--
	}
	if known || r.failed[path] {
		delete(r.failed, path)
		r.told = append(r.told, Leaf{Path: path, Gone: true})
	}
	delete(r.todo[levelOf(path)], path)
}

func (r *round) failedAt(path string, err error) {
	r.failed[path] = true
	r.told = append(r.told, Leaf{Path: path, Err: err})
}

// readable tells that a node on the way to leaves can be read again.
func (r *round) readable(path string) {
	if r.failed[path] {
		delete(r.failed, path)
		r.told = append(r.told, Leaf{Path: path, Gone: true})
	}
}

func (r *round) lookAtLeaves(ctx context.Context) error {
	paths, nodes := r.nodesAt(r.Lists)
	if !r.Contents {
		for _, path := range paths {
			r.told = append(r.told, Leaf{Path: path})
		}
		return nil
	}
	answers, err := r.conn.Contents(ctx, nodes, r.each)
	if err != nil {
		return err
	}
	for i, path := range paths {
		switch err := answers[i].Err; {
		case errors.Is(err, client.NoNode):
			r.gone(path)
		case err != nil:
			r.know(path)
			r.failedAt(path, err)
		default:
			r.know(path)
			delete(r.failed, path)
			r.told = append(r.told, Leaf{Path: path, Content: answers[i].Bytes})
		}
	}
	return nil
}
