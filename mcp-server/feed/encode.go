package feed

import (
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Encode converts a stored resource into the form that is sent to clients. A row that says that it
// comes from a registry, as rows could before that was refused, does not: it is the mesh's own.
func Encode(r *store.Resource) (*served.Resource, error) {
	spec, err := r.Key.Kind.Decode(r.Spec)
	if err != nil {
		return nil, err
	}
	annotations := kinds.WithoutOrigin(r.Annotations)
	version, err := kinds.ContentVersion(r.Labels, annotations, r.Spec, r.Created)
	if err != nil {
		return nil, err
	}
	body, err := (&kinds.Resource{
		Kind: r.Key.Kind, Namespace: r.Key.Namespace, Name: r.Key.Name,
		Labels: r.Labels, Annotations: annotations, CreateTime: r.Created, Spec: kinds.SpecOf(spec),
	}).Any(version)
	if err != nil {
		return nil, err
	}
	return served.NewResource(r.Key.FullName(), version, body), nil
}

// encode returns a resource as it is sent; nil if it cannot be decoded, so that clients keep the
// last good version.
func (f *Feed) encode(r *store.Resource) *served.Resource {
	encoded, err := panics.Receive(func() (*served.Resource, error) { return Encode(r) }) // one bad row must not stop the others
	if err != nil {
		f.undecodable.Inc()
		f.log.Error("a stored resource cannot be decoded; clients keep the last good state of it. Correct or delete the row",
			"resource", r.Key.String(), "revision", r.Revision, "error", err)
		return nil
	}
	return encoded
}

// keepLast reports whether clients should keep the version of a resource that they have, because
// the stored one came around validation and breaks rules. If they have none, the stored one is
// served: it may be older than the rules, and have been in force until this server started.
func (f *Feed) keepLast(r *store.Resource) bool {
	if !r.Unchecked {
		return false
	}
	err := panics.Try("check", func() error {
		if wrong := r.Key.Kind.Check(r.Spec, kinds.Meta{Name: r.Key.Name, Namespace: r.Key.Namespace, Labels: r.Labels, Annotations: r.Annotations}); len(wrong) > 0 {
			return kinds.Errors(wrong)
		}
		return nil
	})
	if err == nil {
		return false
	}
	kept := f.publisher.Last(r.Key.Kind, r.Key.FullName()) != nil
	f.log.Error("a stored resource breaks rules, and was not checked when it was written: see mesh.unsound. Correct or delete it",
		"resource", r.Key.String(), "revision", r.Revision, "error", err, "kept", kept)
	return kept
}
