package rollout

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// mostRefusals is how many refusals are reported of a proxy.
const mostRefusals = 20

// refusals tells what a proxy refuses, and what that was made from.
func (l *ledger) refusals(s *ads.Stream, circle uint32) (all []*rolloutv1.Refusal) {
	for _, t := range s.Types() {
		for _, r := range t.Refused {
			if len(all) == mostRefusals {
				return all
			}
			all = append(all, &rolloutv1.Refusal{
				TypeUrl: t.TypeURL, Resource: r.Name, Reason: r.Reason, Since: timestamppb.New(r.Since),
				Sources: l.sources.of(l.of, s, refused{circle, t.TypeURL, r.Name, r.Version}),
			})
		}
	}
	return all
}

// refused is a resource of Envoy's that proxies of a circle refuse.
type refused struct {
	circle                 uint32
	typeURL, name, version string
}

// sources remembers what refused resources were made from. To find it takes a millisecond, and
// after a bad change to the whole mesh every proxy refuses the same.
type sources struct {
	known, used map[refused][]*rolloutv1.Source
}

func (c *sources) of(proxies Proxies, s *ads.Stream, r refused) []*rolloutv1.Source {
	list, found := c.known[r]
	if !found {
		for _, source := range proxies.Sources(s.Subscriber(), r.typeURL, r.name) {
			list = append(list, sourceOf(source))
		}
	}
	if c.known == nil {
		c.known = map[refused][]*rolloutv1.Source{}
	}
	if c.used == nil {
		c.used = map[refused][]*rolloutv1.Source{}
	}
	c.known[r], c.used[r] = list, list
	return list
}

func sourceOf(s push.Source) *rolloutv1.Source {
	return &rolloutv1.Source{ApiGroup: s.Of.Kind.Group, Kind: s.Of.Kind.Name, Namespace: s.Of.Namespace, Name: s.Of.Name, Path: s.Path}
}

// forgetUnused forgets what nobody has refused since the last call.
func (c *sources) forgetUnused() { c.known, c.used = c.used, nil }
