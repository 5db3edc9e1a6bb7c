package announce

import (
	"context"
	"log/slog"
	"maps"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	announcing "github.com/pgmesh/pgmesh/registry/announce"
	"github.com/pgmesh/pgmesh/registry/service"
)

var (
	entryKind    = kindOf("ServiceEntry")
	workloadKind = kindOf("WorkloadEntry")
)

func kindOf(name string) *kinds.Kind {
	kind, _ := kinds.Lookup("networking.istio.io", name)
	return kind
}

// follower knows the announced services of the newest snapshot. It looks only at what has changed
// since the one before.
type follower struct {
	selection announcing.Selection
	log       *slog.Logger

	entries, workloads *served.Set
	chosen             map[string]*chosen // by the names of resources
	all                map[string]*service.Service
}

// chosen is a resource that is announced.
type chosen struct {
	resource *kinds.Resource
	as       string
}

func (c *chosen) selects() bool { return service.Selects(c.resource) }

// follow has what is wanted be what the publisher serves, until the context ends. While the source
// cannot be read, others may know more.
func (f *follower) follow(ctx context.Context, p *publish.Publisher, wanted *announcing.Wanted) error {
	news := p.Subscribe()
	defer news.Close()
	for {
		if snap := news.Snapshot(); snap != nil {
			source := p.Source()
			changed := f.take(snap)
			switch now, _ := wanted.Now(); {
			case !source.Stale.IsZero() || source.Saved:
				wanted.Want(nil)
			case changed || now == nil:
				wanted.Want(&announcing.Services{Mesh: source.Mesh, All: f.all})
			}
		}
		select {
		case <-news.Changed():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take brings the services up to date, and reports whether any has changed.
func (f *follower) take(snap *served.Snapshot) bool {
	entries, workloads := snap.Sets[entryKind.TypeURL()], snap.Sets[workloadKind.TypeURL()]
	again := map[string]bool{}
	for _, name := range changed(entries, f.entries) {
		if f.choose(name, entries.Get(name)) {
			again[name] = true
		}
	}
	if len(f.chosen) > 0 {
		at := map[string]bool{}
		for _, name := range changed(workloads, f.workloads) {
			at[served.OwnerOf(name)] = true
		}
		for name, c := range f.chosen {
			if at[c.resource.Namespace] && c.selects() {
				again[name] = true
			}
		}
	}
	f.entries, f.workloads = entries, workloads
	if len(again) == 0 && f.all != nil {
		return false
	}
	f.make(again)
	return true
}

// changed are the names that may differ, each once.
func changed(now, before *served.Set) []string {
	if now == before {
		return nil
	}
	return now.Changed(before)
}

// choose reads a resource that has changed, and reports whether it is, or was, announced. What comes
// from a registry is not: it is announced already, or would go round in circles.
func (f *follower) choose(name string, r *served.Resource) bool {
	_, was := f.chosen[name]
	delete(f.chosen, name)
	read := f.read(entryKind, r)
	if read == nil || read.Origin() != "" {
		return was
	}
	as, takes := f.selection.Takes(read.Namespace, read.Name, read.Annotations)
	if takes {
		f.chosen[name] = &chosen{read, as}
	}
	return takes || was
}

// read decodes a resource; nil if there is none that can be read.
func (f *follower) read(kind *kinds.Kind, r *served.Resource) *kinds.Resource {
	if r == nil {
		return nil
	}
	read, err := panics.Receive(func() (*kinds.Resource, error) { return kinds.FromAny(kind, r.Name, r.Body) })
	if err != nil {
		f.log.Error("a resource cannot be read, and is not announced", "resource", r.Name, "error", err)
		return nil
	}
	return read
}

// make makes services anew.
func (f *follower) make(again map[string]bool) {
	all := maps.Clone(f.all)
	if all == nil {
		all = map[string]*service.Service{}
	}
	at := map[string][]*kinds.Resource{}
	for name := range again {
		c := f.chosen[name]
		if delete(all, name); c == nil {
			continue
		}
		namespace := c.resource.Namespace
		if _, read := at[namespace]; !read && c.selects() {
			at[namespace] = f.workloadsOf(namespace)
		}
		s := service.Of(c.resource, at[namespace])
		s.Name = c.as
		all[name] = s
	}
	f.all = all
}

func (f *follower) workloadsOf(namespace string) []*kinds.Resource {
	all := []*kinds.Resource{}
	for r := range f.workloads.OwnedBy(namespace) {
		if read := f.read(workloadKind, r); read != nil {
			all = append(all, read)
		}
	}
	return all
}
