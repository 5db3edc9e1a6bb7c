package rows

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Body is a row's content of a resource. Everything is NULL where a change has no resource before
// or after it. The revision is also NULL for a row that came around the triggers.
type Body struct {
	spec, labels, annotations []byte
	revision, generation      *int64
	created, updated          *time.Time
}

// Targets are what the columns of a body are scanned into.
func (b *Body) Targets() []any {
	return []any{&b.spec, &b.labels, &b.annotations, &b.revision, &b.generation, &b.created, &b.updated}
}

// Resource returns the resource with this body; nil if there is none.
func (b *Body) Resource(k kinds.Key) (*store.Resource, error) {
	if b.spec == nil {
		return nil, nil
	}
	r := &store.Resource{
		Key: k, Spec: b.spec, Revision: orZero(b.revision), Generation: orZero(b.generation), Created: orZero(b.created), Updated: orZero(b.updated),
	}
	var err error
	if r.Labels, err = stringMap(b.labels); err != nil {
		return nil, fmt.Errorf("reading the labels of %s: %w", k, err)
	}
	if r.Annotations, err = stringMap(b.annotations); err != nil {
		return nil, fmt.Errorf("reading the annotations of %s: %w", k, err)
	}
	return r, nil
}

// orZero returns a column's value, or the zero value for NULL.
func orZero[T any](column *T) (value T) {
	if column != nil {
		value = *column
	}
	return value
}

// stringMap reads a JSON object of strings; nil for an empty one.
func stringMap(text []byte) (map[string]string, error) {
	if len(text) == 0 || string(text) == "{}" {
		return nil, nil
	}
	var m map[string]string
	return m, json.Unmarshal(text, &m)
}
