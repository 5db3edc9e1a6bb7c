// Package reference reads how requests of the admin API name resources.
package reference

import (
	"fmt"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// noNamespace stands for the empty namespace in a URL, whose path cannot have an empty part.
const noNamespace = "-"

// Namespace returns the namespace that a request names.
func Namespace(named string) string {
	if named == noNamespace {
		return ""
	}
	return named
}

// Kind returns the kind that a reference names: with its group, or by any name that people use.
func Kind(ref *adminv1.ResourceRef) (*kinds.Kind, error) {
	if ref.GetGroup() == "" {
		return kinds.ByName(ref.GetKind())
	}
	kind, known := kinds.Lookup(ref.GetGroup(), ref.GetKind())
	if !known {
		return nil, fmt.Errorf("unknown kind %q of group %q", ref.GetKind(), ref.GetGroup())
	}
	return kind, nil
}
