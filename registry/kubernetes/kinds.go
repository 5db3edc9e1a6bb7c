package kubernetes

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
)

// configKinds are the kinds that a cluster may have as its own. A MeshConfig is none there.
func configKinds() []*kinds.Kind {
	return slices.DeleteFunc(kinds.All(), func(k *kinds.Kind) bool { return k.Bare })
}

// following is a kind that is read.
type following struct {
	group   *group
	version string
	stop    context.CancelFunc
}

// followKinds has the kinds followed that the cluster has, as it has them, until the context ends.
func (m *mesh) followKinds(ctx context.Context, g *errgroup.Group) {
	which := m.newGroup("kinds")
	which.needed = true
	m.followAuthorities(ctx, g)
	l := &looking{mesh: m, context: ctx, errors: g, part: which.add("the kinds of the cluster"), following: map[*kinds.Kind]*following{}}
	loop := retry.Loop{Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}}
	g.Go(func() error {
		for {
			if err := loop.Until(ctx, func() error { return l.look(ctx) }); err != nil {
				return err
			}
			if err := m.untilNextLook(ctx); err != nil {
				return err
			}
		}
	})
}

func (m *mesh) untilNextLook(ctx context.Context) error {
	timer := time.NewTimer(m.settings.look)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.again:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// lookAgain has it looked at once which kinds there are: one has vanished.
func (m *mesh) lookAgain() {
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// looking finds out which kinds the cluster has.
type looking struct {
	*mesh

	context   context.Context //nolint:containedctx // it is that of the lists, which outlive a look
	errors    *errgroup.Group
	part      *part
	following map[*kinds.Kind]*following
	labels    bool // those of namespaces are followed
}

func (l *looking) look(ctx context.Context) error {
	found, err := l.versions(ctx)
	l.do(func() {
		l.part.away = err
		if err == nil {
			l.part.read = true
			l.follow(found)
		}
	})
	return err
}

// follow begins to follow kinds that are new, and forgets those that are gone.
func (l *looking) follow(found map[*kinds.Kind]string) {
	for kind, version := range found {
		if attaches(kind) && !l.labels {
			l.labels = true
			l.followNamespaces(l.context, l.errors)
		}
		had := l.following[kind]
		if had != nil && had.version == version {
			continue
		}
		f := &following{version: version}
		if had != nil {
			had.stop()
			l.removeGroup(had.group)
		}
		f.group = l.newGroup(kindName(kind))
		l.following[kind] = f
		if l.config[kind] == nil {
			l.config[kind] = map[kinds.Key]*kinds.Resource{}
		}
		var ctx context.Context
		ctx, f.stop = context.WithCancel(l.context)
		l.followKind(ctx, l.errors, kind, version, f.group)
	}
	for kind, had := range l.following {
		if _, is := found[kind]; !is {
			had.stop()
			delete(l.following, kind)
			l.removeGroup(had.group)
			for k := range l.config[kind] {
				l.drop(k)
			}
		}
	}
}

func (m *mesh) removeGroup(g *group) {
	g.ended = true
	m.spoil(g, nil)
	m.groups = slices.DeleteFunc(m.groups, func(other *group) bool { return other == g })
}

// versions says in which version the cluster has each kind. A server that has just started does not
// know all of them yet, and says that it is not ready.
func (m *mesh) versions(ctx context.Context) (map[*kinds.Kind]string, error) {
	if err := m.client.Reach(ctx, "/readyz"); err != nil {
		if refusal, is := errors.AsType[*client.Refusal](err); !is || !refusal.Forbidden() && !refusal.Missing() {
			return nil, err
		}
	}
	var groups struct {
		Kind   string `json:"kind"`
		Groups []struct {
			Name     string `json:"name"`
			Versions []struct {
				Version string `json:"version"`
			} `json:"versions"`
		} `json:"groups"`
	}
	if err := m.client.Get(ctx, "/apis", &groups); err != nil {
		return nil, err
	}
	if groups.Kind != "APIGroupList" || len(groups.Groups) == 0 {
		return nil, client.Unreadable(errors.New("/apis is no list of groups"))
	}
	has := map[string]map[string]bool{}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			at := g.Name + "/" + v.Version
			if !wanted(g.Name) {
				continue
			}
			names, err := m.plurals(ctx, at)
			if err != nil {
				return nil, err
			}
			has[at] = names
		}
	}
	found := chosen(has)
	for kind, version := range found {
		m.statuses.know(kind, version, has[kind.Group+"/"+version][kind.Plural+"/status"])
	}
	return found, nil
}

// plurals are the kinds of a version of a group.
func (m *mesh) plurals(ctx context.Context, at string) (map[string]bool, error) {
	var found struct {
		Kind      string `json:"kind"`
		Resources []struct {
			Name string `json:"name"`
		} `json:"resources"`
	}
	if err := m.client.Get(ctx, "/apis/"+at, &found); err != nil {
		return nil, err
	}
	if found.Kind != "APIResourceList" {
		return nil, client.Unreadable(errors.New("/apis/" + at + " is no list of kinds"))
	}
	names := make(map[string]bool, len(found.Resources))
	for _, r := range found.Resources {
		names[r.Name] = true
	}
	return names, nil
}

func wanted(group string) bool {
	return slices.ContainsFunc(configKinds(), func(k *kinds.Kind) bool { return k.Group == group })
}

// chosen is the first version of each kind that the cluster has, in the order in which we prefer them.
func chosen(has map[string]map[string]bool) map[*kinds.Kind]string {
	out := map[*kinds.Kind]string{}
	for _, kind := range configKinds() {
		for _, version := range kind.Versions {
			if has[kind.Group+"/"+version][kind.Plural] {
				out[kind] = version
				break
			}
		}
	}
	return out
}
