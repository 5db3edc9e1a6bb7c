package files

import (
	"fmt"

	"github.com/pgmesh/pgmesh/kinds"
)

// elsewhere is the mistake of a resource that names another namespace than the command line does: one of both is wrong, and to
// follow either might change what nobody meant.
func (s *Sources) elsewhere(d *kinds.Document) kinds.Errors {
	key := d.Resource.Key()
	if s.Only == "" || !key.Kind.Namespaced || key.Namespace == s.Only {
		return nil
	}
	return kinds.Errors{{
		File: d.File, Document: d.Index, Line: d.Line, Kind: key.Kind.Name, Namespace: key.Namespace, Name: key.Name, Path: "metadata.namespace",
		Reason: fmt.Sprintf("it is in the namespace %s, and --namespace says %s", key.Namespace, s.Only),
		Hint:   "leave --namespace out, which is for what names none, or say --namespace " + key.Namespace,
	}}
}
