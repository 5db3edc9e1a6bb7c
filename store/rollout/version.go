package rollout

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/pgmesh/pgmesh/store"
)

// Version says which version of a registry's resource a discovery has, and which push brings it to
// proxies. It is empty if no registry has the resource any more.
type Version struct {
	Resource

	Version string
	Push    uint64
}

type versionRow struct {
	Resource

	Version string `json:"version"`
	Push    uint64 `json:"push"`
}

// versionRows returns versions as the database takes them; nil for none.
func versionRows(all []Version) ([]byte, error) {
	if len(all) == 0 {
		return nil, nil
	}
	rows, seen := make([]versionRow, len(all)), make(map[Resource]bool, len(all))
	for i, v := range all {
		of := v.bounded()
		switch {
		case seen[of]:
			return nil, &store.InvalidError{Reason: fmt.Sprintf("the version of %.100q is there twice", of.Name), Advice: "report each resource once in a message"}
		case v.Push > math.MaxInt64:
			return nil, &store.InvalidError{Reason: fmt.Sprintf("the version of %.100q: there is no push %d", of.Name, v.Push), Advice: "pushes are counted from 1"}
		}
		seen[of] = true
		rows[i] = versionRow{of, text(v.Version), v.Push}
	}
	return json.Marshal(rows)
}
