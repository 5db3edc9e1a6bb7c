package rollout

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/store"
)

// Audience says whom a resource concerns: everyone, or proxies of some circles. Without either it
// concerns nobody.
type Audience struct {
	Resource

	Everyone bool
	Circles  []uint32
}

type audienceRow struct {
	Resource

	Everyone bool     `json:"everyone"`
	Circles  []uint32 `json:"circles"`
}

// audienceRows returns audiences as the database takes them; nil for none.
func audienceRows(all []Audience) ([]byte, error) {
	if len(all) == 0 {
		return nil, nil
	}
	rows, seen := make([]audienceRow, len(all)), make(map[Resource]bool, len(all))
	for i, a := range all {
		of := a.bounded()
		if seen[of] {
			return nil, &store.InvalidError{Reason: fmt.Sprintf("the audience of %.100q is there twice", of.Name), Advice: "report each resource once in a message"}
		}
		seen[of] = true
		rows[i] = audienceRow{of, a.Everyone, distinct(a.Circles)}
	}
	return json.Marshal(rows)
}

// distinct returns circles once each, for whoever is in one of them is counted once.
func distinct(circles []uint32) []uint32 {
	sorted := append([]uint32{}, circles...)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
