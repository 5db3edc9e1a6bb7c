package admin

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
)

// resourceOf converts a stored resource to the form that people write; nil stays nil.
func resourceOf(r *store.Resource) (*adminv1.Resource, error) {
	if r == nil {
		return nil, nil
	}
	spec := &structpb.Struct{}
	if err := spec.UnmarshalJSON(r.Spec); err != nil {
		return nil, fmt.Errorf("read the spec of %s: %w", r.Key, err)
	}
	return &adminv1.Resource{
		ApiVersion: r.Key.Kind.APIVersion(), Kind: r.Key.Kind.Name, Spec: spec,
		Metadata: &adminv1.Metadata{
			Name: r.Key.Name, Namespace: r.Key.Namespace, Labels: r.Labels, Annotations: r.Annotations,
			CreationTimestamp: stamp.Of(r.Created), UpdateTimestamp: stamp.Of(r.Updated),
			Generation: uint32(r.Generation), ResourceVersion: r.Revision,
		},
	}, nil
}

// valueOf parses a stored JSON value; nil stays nil.
func valueOf(text json.RawMessage) (*structpb.Value, error) {
	if text == nil {
		return nil, nil
	}
	v := &structpb.Value{}
	if err := v.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("read a value that is stored: %w", err)
	}
	return v, nil
}
