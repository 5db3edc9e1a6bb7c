package rollout

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// mostRefusals is how many refusals are reported of a proxy.
const mostRefusals = 20

// refusals tells what a proxy refuses, and what that was made from.
func (l *ledger) refusals(s *ads.Stream) (all []*rolloutv1.Refusal) {
	for _, t := range s.Types() {
		for _, r := range t.Refused {
			if len(all) == mostRefusals {
				return all
			}
			refusal := &rolloutv1.Refusal{TypeUrl: t.TypeURL, Resource: r.Name, Reason: r.Reason, Since: timestamppb.New(r.Since)}
			for _, key := range l.of.Sources(s.Subscriber(), t.TypeURL, r.Name) {
				refusal.Sources = append(refusal.Sources, resourceOf(key))
			}
			all = append(all, refusal)
		}
	}
	return all
}
