package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/store"
)

// Rollout is how far one push of a discovery has come: that of a revision, and of those before it
// that travelled with it.
type Rollout struct {
	Revision int64
	After    int64 // the revision of the push before
	Began    time.Time
	Parts    []Part
}

// Part is how many proxies of a namespace there was something new for. Those that neither ran it
// nor refused it nor are away are to answer.
type Part struct {
	Namespace                     string
	Concerned, Ran, Refused, Away uint32
	Took                          []uint64 // microseconds until proxies ran it, in order: of all or of some
}

type rolloutRow struct {
	Revision int64     `json:"revision"`
	After    int64     `json:"after"`
	Began    time.Time `json:"began"`
	Parts    []partRow `json:"parts"`
}

type partRow struct {
	Namespace string  `json:"namespace"`
	Concerned uint32  `json:"concerned"`
	Ran       uint32  `json:"ran"`
	Refused   uint32  `json:"refused"`
	Away      uint32  `json:"away"`
	Took      []int64 `json:"took"`
}

// mostTook is 10 days in microseconds: no time is longer.
const mostTook = 10 * 24 * 3600 * 1_000_000

// rolloutRows returns rollouts as the database takes them; nil for none.
func rolloutRows(all []Rollout) ([]byte, error) {
	if len(all) == 0 {
		return nil, nil
	}
	rows, seen := make([]rolloutRow, len(all)), make(map[int64]bool, len(all))
	for i, r := range all {
		if r.After < 0 || r.Revision <= r.After || seen[r.Revision] {
			return nil, &store.InvalidError{
				Reason: fmt.Sprintf("revision %d after %d is there twice, or is none", r.Revision, r.After),
				Advice: "name each push once in a message, by a revision that is above that of the push before",
			}
		}
		seen[r.Revision] = true
		parts, err := partRows(r)
		if err != nil {
			return nil, err
		}
		rows[i] = rolloutRow{r.Revision, r.After, past(r.Began), parts}
	}
	return json.Marshal(rows)
}

func partRows(r Rollout) ([]partRow, error) {
	rows, seen := make([]partRow, len(r.Parts)), make(map[string]bool, len(r.Parts))
	for i, p := range r.Parts {
		namespace := text(p.Namespace)
		switch {
		case seen[namespace]:
			return nil, invalidPart(r, p, "it is there twice", "report each namespace once")
		case uint64(p.Ran)+uint64(p.Refused)+uint64(p.Away) > uint64(p.Concerned):
			return nil, invalidPart(r, p, "more proxies have answered than it concerns", "count each proxy once")
		case len(p.Took) > int(p.Ran) || !slices.IsSorted(p.Took):
			return nil, invalidPart(r, p, "there are more times than proxies that ran it, or they are not in order", "sort them, and report one for each at most")
		}
		seen[namespace] = true
		rows[i] = partRow{namespace, p.Concerned, p.Ran, p.Refused, p.Away, durations(p.Took)}
	}
	return rows, nil
}

func invalidPart(r Rollout, p Part, reason, advice string) error {
	return &store.InvalidError{Reason: fmt.Sprintf("revision %d in namespace %.100q: %s", r.Revision, p.Namespace, reason), Advice: advice}
}

// durations returns microseconds that can be added to any time.
func durations(all []uint64) []int64 {
	some := make([]int64, len(all))
	for i, t := range all {
		some[i] = int64(min(t, mostTook))
	}
	return some
}
