package store

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// key is a key in the database, whose kind this program may not know.
type key struct{ group, kind, namespace, name string }

func keyOf(k kinds.Key) key { return key{k.Kind.Group, k.Kind.Name, k.Namespace, k.Name} }

// resolve finds the kind of a row, or reports that the row is skipped.
func (s *Store) resolve(k key, revision Revision) (kinds.Key, bool) {
	kind, ok := kinds.Lookup(k.group, k.kind)
	if k.group == kinds.Secret.Group && k.kind == kinds.Secret.Name { // history records changes of secrets
		kind, ok = kinds.Secret, true
	}
	if !ok {
		s.skip(Skipped{k.group, k.kind, k.namespace, k.name, revision})
		return kinds.Key{}, false
	}
	return kinds.Key{Kind: kind, Namespace: k.namespace, Name: k.name}, true
}

// unknownKinds records which kinds were logged.
type unknownKinds struct{ logged sync.Map }

func (s *Store) skip(skipped Skipped) {
	if s.options.Skipped != nil {
		s.options.Skipped(skipped)
		return
	}
	if _, again := s.unknown.logged.LoadOrStore([2]string{skipped.Group, skipped.Kind}, true); !again {
		s.options.Log.Warn("left out resources of a kind that this program does not know: upgrade it",
			"group", skipped.Group, "kind", skipped.Kind, "first", skipped.Namespace+"/"+skipped.Name)
	}
}

// body is a row's content of a resource. Everything is NULL where a change has no resource before or
// after it. The revision is also NULL for a row that came around the triggers.
type body struct {
	spec, labels, annotations []byte
	revision, generation      *int64
	created, updated          *time.Time
}

func (b *body) targets() []any {
	return []any{&b.spec, &b.labels, &b.annotations, &b.revision, &b.generation, &b.created, &b.updated}
}

func (b *body) resource(k kinds.Key) (*Resource, error) {
	if b.spec == nil {
		return nil, nil
	}
	r := &Resource{
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
