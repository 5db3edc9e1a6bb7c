package rollout

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Status is what became of a resource.
type Status struct {
	Resource

	Revision                     int64 // of its last change
	Conditions                   []Condition
	Concerned, Running, Refusing uint32 // proxies
	// Own is the status of a resource of the Gateway API in that API's own shape, as JSON; nil if it is
	// not known, and of other kinds.
	Own json.RawMessage
}

// Condition is one of Kubernetes' sort.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"lastTransitionTime"`
}

// Selection selects resources. An empty field selects all.
type Selection struct {
	Kinds             []*kinds.Kind
	Namespaces, Names []string
}

// Statuses lists what became of resources.
func (s *Store) Statuses(ctx context.Context, may []string, of Selection) ([]Status, error) {
	var words []string
	for _, k := range of.Kinds {
		words = append(words, k.Name+"."+k.Group)
	}
	return read(ctx, s, may, "reading what became of resources", func(row pgx.CollectableRow) (r Status, err error) {
		err = row.Scan(&r.Group, &r.Kind, &r.Namespace, &r.Name, &r.Revision, &r.Conditions, &r.Concerned, &r.Running, &r.Refusing, &r.Own)
		return r, err
	}, sql.Statuses, some(words), some(of.Namespaces), some(of.Names))
}

// some is a parameter that selects: NULL if there are none.
func some(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
