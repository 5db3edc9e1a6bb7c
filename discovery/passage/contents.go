package passage

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/kinds"
)

// contents are what a batch has changed.
type contents struct {
	resources         int
	kinds, namespaces tracing.Names
}

// mostLookedAt bounds how many changes are looked at: the first batch has the whole mesh.
const mostLookedAt = 1000

func contentsOf(b kinds.Batch) contents {
	c := contents{resources: len(b.Changes)}
	for _, change := range b.Changes[:min(len(b.Changes), mostLookedAt)] {
		c.kinds.Add(change.Key.Kind.Name)
		c.namespaces.Add(change.Key.Namespace)
	}
	return c
}

func (c *contents) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.Int(tracing.ResourcesKey, c.resources), c.kinds.As(tracing.KindsKey), c.namespaces.As(tracing.NamespacesKey)}
}

// workAttributes say what was translated: of each type how many resources and bytes, and how long
// that took.
func workAttributes(work []push.Work) (all []attribute.KeyValue) {
	for _, w := range work {
		of := tracing.TranslatedKey + push.Label(w.TypeURL)
		all = append(all, attribute.Int(of+".resources", w.Resources), attribute.Int(of+".bytes", w.Bytes), attribute.Float64(of+".seconds", w.Took.Seconds()))
	}
	return all
}
