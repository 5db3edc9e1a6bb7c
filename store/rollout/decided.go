package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pgmesh/pgmesh/store"
)

// Decided is what a discovery decides of the status of a resource of the Gateway API, as JSON. It is
// empty if the resource has no status any more.
type Decided struct {
	Resource

	Status string
}

// mostDecided bounds a status. One of 64 listeners with all their conditions is a fifth of it.
const mostDecided = 512 << 10

type decidedRow struct {
	Resource

	Status json.RawMessage `json:"status"`
}

// decidedRows returns statuses as the database takes them; nil for none.
func decidedRows(all []Decided) ([]byte, error) {
	if len(all) == 0 {
		return nil, nil
	}
	rows, seen := make([]decidedRow, len(all)), make(map[Resource]bool, len(all))
	for i, d := range all {
		of := d.bounded()
		switch {
		case seen[of]:
			return nil, &store.InvalidError{Reason: fmt.Sprintf("the status of %.100q is there twice", of.Name), Advice: "report each resource once in a message"}
		case len(d.Status) > mostDecided:
			return nil, &store.InvalidError{Reason: fmt.Sprintf("the status of %.100q takes %d bytes", of.Name, len(d.Status)), Advice: fmt.Sprintf("report %d at most", mostDecided)}
		case d.Status != "" && !isObject(d.Status):
			return nil, &store.InvalidError{Reason: fmt.Sprintf("the status of %.100q is no JSON object", of.Name), Advice: "report it as the Gateway API has it"}
		}
		seen[of] = true
		rows[i] = decidedRow{Resource: of}
		if d.Status != "" {
			rows[i].Status = bytes.ReplaceAll([]byte(store.Storable(d.Status)), []byte(`\u0000`), []byte(`\ufffd`))
		}
	}
	return json.Marshal(rows)
}

func isObject(text string) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &fields) == nil && fields != nil
}
