package tree

import (
	"strings"
	"sync"

	"github.com/pgmesh/pgmesh/registry/zookeeper/client"
)

// session is a tree while a session lasts.
type session struct {
	*Tree

	conn *client.Conn
	each bool

	mu    sync.Mutex
	dirty map[string]bool // where to look again, by path below the root
	all   bool            // look everywhere
	news  chan struct{}
}

// mostDirty is how many places are remembered. Where there are more, everything is looked at.
const mostDirty = 100_000

// happened notes where to look again.
func (s *session) happened(e client.Event) {
	path, below := s.below(e.Path)
	if !below {
		return
	}
	level := levelOf(path)
	switch {
	case level > s.Lists || !s.wantedAll(path):
		return
	case level == s.Lists && !s.Contents:
		path, _ = split(path)
	case level < s.Lists && e.Sort == client.Changed:
		return // what a list holds does not count
	}
	s.mark(path)
}

func (s *session) mark(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirty[path] = true; len(s.dirty) > mostDirty {
		clear(s.dirty)
		s.all = true
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// lookAgain marks what could not be read: ZooKeeper does not tell when somebody may read it.
func (s *session) lookAgain() {
	for path := range s.failed {
		s.mark(path)
	}
}

func (s *session) take() (dirty map[string]bool, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dirty, all = s.dirty, s.all
	s.dirty, s.all = map[string]bool{}, false
	return dirty, all
}

// below is a path below the root: "" is the root itself.
func (t *Tree) below(node string) (string, bool) {
	rest, ok := strings.CutPrefix(node, t.Root)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// node is a path below the root as ZooKeeper has it.
func (t *Tree) node(path string) string {
	if path == "" {
		return t.Root
	}
	return t.Root + "/" + path
}

func levelOf(path string) int {
	if path == "" {
		return 0
	}
	return strings.Count(path, "/") + 1
}

// split is the list that a path is in, and its name there.
func split(path string) (list, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

func join(list, name string) string {
	if list == "" {
		return name
	}
	return list + "/" + name
}

// wantedAll reports whether a path and those above it are wanted.
func (t *Tree) wantedAll(path string) bool {
	for path != "" {
		list, name := split(path)
		if !t.wanted(levelOf(list), name) {
			return false
		}
		path = list
	}
	return true
}

func (t *Tree) wanted(level int, name string) bool { return t.Wanted == nil || t.Wanted(level, name) }
