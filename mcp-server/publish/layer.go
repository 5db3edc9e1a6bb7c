package publish

import (
	"encoding/hex"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// layers are what registries have, laid over the content of the source. A name that the source has
// is the source's; of two registries the first counts. Without registries they cost nothing.
type layers struct {
	list []*layer
	// over has the sets that clients are served of the kinds that some registry has or had.
	over map[*kinds.Kind]*served.Set
	// anew says that the next content of the source does not follow from the one before.
	anew bool
	sum  uint64 // of everything in the layers
}

// layer is what one registry has.
type layer struct {
	name    string
	content map[*kinds.Kind]map[string]*served.Resource
	settled bool // it was read, or is not waited for
	stands  RegistryStanding
}

// Join has registries join the source, in the order in which they count. Nothing is served before
// each of them was read or settled. Call it before there is anything.
func (p *Publisher) Join(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layers.over = map[*kinds.Kind]*served.Set{}
	for _, name := range names {
		p.layers.list = append(p.layers.list, &layer{name: name, content: map[*kinds.Kind]map[string]*served.Resource{}, stands: RegistryStanding{Name: name}})
	}
}

// ApplyJoined publishes changes of a registry.
func (p *Publisher) ApplyJoined(name string, c Changes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeJoined(p.layers.of(name), c)
}

// Settle has nobody wait for a registry any longer.
func (p *Publisher) Settle(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layers.of(name).settled = true
	p.publishHeld()
}

// IsOwn reports whether the source has a resource of that name, which hides those of registries.
func (p *Publisher) IsOwn(kind *kinds.Kind, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.base[kind].Get(name) != nil
}

// Joined returns what is served of a registry, and when that was known to be the newest, if it is
// not. It is for a registry that begins: what was saved is there before it was read.
func (p *Publisher) Joined(name string) (has map[*kinds.Kind]map[string]*served.Resource, stale time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.layers.of(name)
	has = map[*kinds.Kind]map[string]*served.Resource{}
	for kind, content := range l.content {
		has[kind] = maps.Clone(content)
	}
	return has, l.stands.Stale
}

// JoinedResource returns what a registry has under a name; nil if it has none.
func (p *Publisher) JoinedResource(name string, kind *kinds.Kind, fullName string) *served.Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.layers.of(name).content[kind][fullName]
}

// changeJoined applies changes to a layer and publishes what follows.
func (p *Publisher) changeJoined(l *layer, c Changes) {
	changed := false
	for kind, names := range c.Removed {
		for _, name := range names {
			l.set(&p.layers, kind, name, nil)
		}
		changed = p.layers.renew(kind, p.base[kind], names) || changed
	}
	for kind, upserts := range c.Upserts {
		names := make([]string, len(upserts))
		for i, r := range upserts {
			names[i] = r.Name
			l.set(&p.layers, kind, r.Name, r)
		}
		changed = p.layers.renew(kind, p.base[kind], names) || changed
	}
	switch {
	case p.held != nil:
		p.publishHeld()
	case p.loaded && changed:
		p.publish(p.base, p.at, time.Time{})
	}
}

func (l *layers) of(name string) *layer {
	for _, one := range l.list {
		if one.name == name {
			return one
		}
	}
	panic("no registry " + name + " has joined") // the names are those of Join
}

// recall has a registry begin with what it had, if it has joined and was not read yet.
func (l *layers) recall(had JoinedState) {
	for _, one := range l.list {
		if one.name != had.Name || one.settled {
			continue
		}
		one.stands.Stale = had.AsOf
		for kind, content := range had.Content {
			for name, r := range content {
				one.set(l, kind, name, r)
			}
		}
	}
}

// set changes one resource; nil removes it.
func (l *layer) set(of *layers, kind *kinds.Kind, name string, r *served.Resource) {
	if before := l.content[kind][name]; before != nil {
		of.sum -= weigh(kind, before)
	}
	if r == nil {
		delete(l.content[kind], name)
		return
	}
	if l.content[kind] == nil {
		l.content[kind] = map[string]*served.Resource{}
	}
	l.content[kind][name] = r
	of.sum += weigh(kind, r)
}

// weigh is what a resource adds to the sum of all. Its version is a hash already.
func weigh(kind *kinds.Kind, r *served.Resource) uint64 {
	return hash(kind.TypeURL(), r.Name, r.Version)
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// find returns the resource that counts if the source has none of that name.
func (l *layers) find(kind *kinds.Kind, name string) *served.Resource {
	for _, one := range l.list {
		if r := one.content[kind][name]; r != nil {
			return r
		}
	}
	return nil
}

// renew brings names of a kind up to date after a layer has changed, and reports whether clients
// are to learn of it.
func (l *layers) renew(kind *kinds.Kind, base *served.Set, names []string) bool {
	if len(names) == 0 {
		return false
	}
	var upserts []*served.Resource
	var removed []string
	for _, name := range names {
		if base.Get(name) != nil {
			continue
		}
		if r := l.find(kind, name); r != nil {
			upserts = append(upserts, r)
		} else {
			removed = append(removed, name)
		}
	}
	before := l.over[kind]
	if before == nil {
		before = base.Branch()
	}
	l.over[kind] = before.WithAsIn(base, upserts, removed)
	return l.over[kind] != before
}

// follow brings the sets up to date after the source's have changed.
func (l *layers) follow(kind *kinds.Kind, base *served.Set, upserts []*served.Resource, removed []string) {
	over := l.over[kind]
	if over == nil {
		return
	}
	var gone []string
	for _, name := range removed {
		if r := l.find(kind, name); r != nil {
			upserts = append(slices.Clip(upserts), r)
		} else {
			gone = append(gone, name)
		}
	}
	l.over[kind] = over.WithAsIn(base, upserts, gone)
}

// onto lays the layers over sets that they were not laid over before.
func (l *layers) onto(sets map[*kinds.Kind]*served.Set) {
	l.anew = false
	clear(l.over)
	for _, one := range l.list {
		for kind, content := range one.content {
			names := make([]string, 0, len(content))
			for name := range content {
				names = append(names, name)
			}
			l.renew(kind, sets[kind], names)
		}
	}
}

// all returns the sets to serve.
func (l *layers) all(base map[*kinds.Kind]*served.Set) map[*kinds.Kind]*served.Set {
	if len(l.over) == 0 {
		return base
	}
	all := maps.Clone(base)
	maps.Copy(all, l.over)
	return all
}

// mark is what the layers add to the mark of a position. It is the same on each server whose
// registries have the same, so a client may move between those. Those that are not current change it:
// a client that has been told that one is current again has what it has with the next mark.
func (l *layers) mark() string {
	if len(l.list) == 0 {
		return ""
	}
	all := l.sum
	for _, one := range l.list {
		if !one.stands.current() {
			all += hash(one.name)
		}
	}
	sum := make([]byte, 8)
	for i := range sum {
		sum[i] = byte(all >> (8 * i))
	}
	return joinedMark + hex.EncodeToString(sum)
}

// joinedMark begins what registries add to a mark.
const joinedMark = "+"

// Committed is the position without what registries have added to it.
func (at Position) Committed() Position {
	at.Mark, _, _ = strings.Cut(at.Mark, joinedMark)
	return at
}

// awaited are the registries that are still waited for.
func (l *layers) awaited() (names []string) {
	for _, one := range l.list {
		if !one.settled {
			names = append(names, one.name)
		}
	}
	return names
}
